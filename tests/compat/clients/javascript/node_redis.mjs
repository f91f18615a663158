// The scenario with node-redis, in RESP2 or RESP3.

import { CACHE, CACHED_READS, HOST, Inbox, MESSAGES, PORT, PREFIX, PROTOCOL, SCRIPT, UNIX, UNKNOWN_SHA, ask, load, pipelineWords, run, say, trying } from './reporting.mjs';

const { createClient, RESP_TYPES, WatchError } = load('redis');
const socket = { ...(UNIX ? { path: UNIX } : { host: HOST, port: PORT }), reconnectStrategy: () => 20 };
const binary = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } };

async function connected(options = {}) {
  const client = createClient({ socket, RESP: PROTOCOL, ...options });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function pipelines(client) {
  // Commands issued in one turn leave in one write.
  say('pipeline', await Promise.all(pipelineWords().map((words) => client.sendCommand(words))));
  const [, error, after] = await Promise.allSettled([client.get(`${PREFIX}p0`), client.lPush(`${PREFIX}p0`, 'x'), client.get(`${PREFIX}p1`)]);
  say('pipeline_error', error.reason.message);
  say('after_error', after.value);
}

async function transactions(client) {
  say('transaction', await client.multi().set(`${PREFIX}transaction`, 'a').incr(`${PREFIX}n`).get(`${PREFIX}transaction`).exec());
  await client.watch(`${PREFIX}watched`);
  await ask('watched');
  try {
    say('conflict', await client.multi().set(`${PREFIX}watched`, 'mine').exec());
  } catch (error) {
    if (!(error instanceof WatchError)) throw error;
    say('conflict', 'aborted');
  }
}

async function blocking(client) {
  say('blpop_timeout', await client.blPop(`${PREFIX}none`, 0.05));
  const waiting = client.blPop(`${PREFIX}queue`, 60);
  say('!blocking');
  say('blpop', (await waiting).element);
}

async function publishAndSubscribe(client) {
  const subscriber = await client.duplicate().on('error', () => {}).connect();
  const inbox = new Inbox();
  await subscriber.subscribe(`${PREFIX}channel`, (message) => inbox.put(message));
  await ask('subscribed');
  say('published', await client.publish(`${PREFIX}channel`, 'own'));
  say('received', await inbox.take(MESSAGES + 1));
  return { subscriber, inbox };
}

async function scripts(client) {
  say('eval', await client.eval(SCRIPT, { keys: [`${PREFIX}script`], arguments: ['x'] }));
  say('evalsha', await client.evalSha(await client.scriptLoad(SCRIPT), { keys: [`${PREFIX}script`], arguments: ['y'] }));
  await client.evalSha(UNKNOWN_SHA).catch((error) => say('noscript', error.message));
}

async function large(client) {
  // The mapping is given with each command: sendCommand overlooks what withTypeMapping has set.
  const value = await client.sendCommand(['BLOB.TCP_GET', `${PREFIX}placed`], binary);
  await client.sendCommand(['BLOB.TCP_SET', `${PREFIX}copy`, value]);
  say('large', value.length);
}

async function clientSideCache() {
  const client = await connected({ clientSideCache: { ttl: 0, maxEntries: 100 } });
  await client.get(`${PREFIX}cached`);
  await ask('cache_begin');
  for (let read = 0; read < CACHED_READS; ++read) await client.get(`${PREFIX}cached`);
  await ask('cache_end');
  say('cached', await trying(async () => ((await client.get(`${PREFIX}cached`)) === 'new' ? 'new' : undefined)));
  client.destroy();
}

async function reconnects(client, { subscriber, inbox }) {
  await ask('kill', await client.sendCommand(['CLIENT', 'ID']));
  say('after_kill', await trying(() => client.get(`${PREFIX}p1`)));
  say('new_id', await trying(() => client.sendCommand(['CLIENT', 'ID'])));
  await ask('restart');
  say('after_restart', await trying(() => client.get(`${PREFIX}p1`)));
  // It subscribes again by itself.
  await trying(async () => ((await client.publish(`${PREFIX}channel`, 'again')) === 1 ? true : undefined));
  say('resubscribed', await inbox.take(1));
  subscriber.destroy();
}

await run(async () => {
  const client = await connected();
  await pipelines(client);
  await transactions(client);
  await blocking(client);
  const subscription = await publishAndSubscribe(client);
  await scripts(client);
  await large(client);
  if (CACHE) await clientSideCache();
  await reconnects(client, subscription);
  await client.close();
});
