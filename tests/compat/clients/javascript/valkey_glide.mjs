// The scenario with GLIDE for Node.js.

import { CACHE, CACHED_READS, HOST, Inbox, MESSAGES, PORT, PREFIX, PROTOCOL, SCRIPT, UNKNOWN_SHA, ask, load, pipelineWords, run, say, trying } from './reporting.mjs';

const { Batch, ClientSideCache, Decoder, GlideClient, GlideClientConfiguration, ProtocolVersion } = load('@valkey/valkey-glide');
const protocol = PROTOCOL === 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;

const connected = (options = {}) => GlideClient.createClient({ addresses: [{ host: HOST, port: PORT }], protocol, requestTimeout: 10_000, ...options });

async function pipelines(client) {
  const batch = new Batch(false);
  for (const words of pipelineWords()) batch.customCommand(words);
  say('pipeline', await client.exec(batch, true));
  const [, error, after] = await client.exec(new Batch(false).get(`${PREFIX}p0`).lpush(`${PREFIX}p0`, ['x']).get(`${PREFIX}p1`), false);
  say('pipeline_error', error.message);
  say('after_error', after);
}

async function transactions(client) {
  say('transaction', await client.exec(new Batch(true).set(`${PREFIX}transaction`, 'a').incr(`${PREFIX}n`).get(`${PREFIX}transaction`), true));
  await client.watch([`${PREFIX}watched`]);
  await ask('watched');
  const aborted = await client.exec(new Batch(true).set(`${PREFIX}watched`, 'mine'), true);
  say('conflict', aborted === null ? 'aborted' : aborted);
}

async function blocking(client) {
  say('blpop_timeout', await client.blpop([`${PREFIX}none`], 0.05));
  const waiting = client.blpop([`${PREFIX}queue`], 60);
  say('!blocking');
  say('blpop', (await waiting)[1]);
}

async function publishAndSubscribe(client) {
  const inbox = new Inbox();
  const subscriber = await connected({
    protocol: ProtocolVersion.RESP3,  // it subscribes in no other
    pubsubSubscriptions: {
      channelsAndPatterns: { [GlideClientConfiguration.PubSubChannelModes.Exact]: new Set([`${PREFIX}channel`]) },
      callback: (message) => inbox.put(message.message),
    },
  });
  await ask('subscribed');
  say('published', await client.publish('own', `${PREFIX}channel`));
  say('received', await inbox.take(MESSAGES + 1));
  return { subscriber, inbox };
}

async function scripts(client) {
  say('eval', await client.customCommand(['EVAL', SCRIPT, '1', `${PREFIX}script`, 'x']));
  const sha = await client.customCommand(['SCRIPT', 'LOAD', SCRIPT]);
  say('evalsha', await client.customCommand(['EVALSHA', sha, '1', `${PREFIX}script`, 'y']));
  await client.customCommand(['EVALSHA', UNKNOWN_SHA, '0']).catch((error) => say('noscript', error.message));
}

async function large(client) {
  const value = await client.customCommand(['BLOB.TCP_GET', `${PREFIX}placed`], { decoder: Decoder.Bytes });
  await client.customCommand(['BLOB.TCP_SET', `${PREFIX}copy`, value]);
  say('large', value.length);
}

async function clientSideCache() {
  const client = await connected({ clientSideCache: new ClientSideCache({ maxCacheKb: 1024, entryTtlMs: 0, serverAssisted: true }) });
  await client.get(`${PREFIX}cached`);
  await ask('cache_begin');
  for (let read = 0; read < CACHED_READS; ++read) await client.get(`${PREFIX}cached`);
  await ask('cache_end');
  say('cached', await trying(async () => ((await client.get(`${PREFIX}cached`)) === 'new' ? 'new' : undefined)));
  client.close();
}

async function reconnects(client) {
  await ask('kill', await client.customCommand(['CLIENT', 'ID']));
  say('after_kill', await trying(() => client.get(`${PREFIX}p1`)));
  say('new_id', await trying(() => client.customCommand(['CLIENT', 'ID'])));
  await ask('restart');
  say('after_restart', await trying(() => client.get(`${PREFIX}p1`)));
}

await run(async () => {
  const client = await connected();
  await pipelines(client);
  await transactions(client);
  await blocking(client);
  const { subscriber } = await publishAndSubscribe(client);
  await scripts(client);
  await large(client);
  if (CACHE) await clientSideCache();
  subscriber.close();
  await reconnects(client);
  client.close();
});
