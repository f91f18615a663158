// The scenario with ioredis or iovalkey, which speak RESP2 only: the first argument is the package's name.

import { once } from 'node:events';
import { HOST, Inbox, MESSAGES, PORT, PREFIX, SCRIPT, UNIX, UNKNOWN_SHA, ask, load, pipelineWords, run, say, trying } from './reporting.mjs';

const Redis = load(process.argv[2]);
const address = UNIX ? { path: UNIX } : { host: HOST, port: PORT };

async function connected(options = {}) {
  const client = new Redis({ ...address, retryStrategy: () => 20, ...options });
  client.on('error', () => {});
  await once(client, 'ready');
  return client;
}

async function pipelines(client) {
  const replies = await client.pipeline(pipelineWords().map(([name, ...rest]) => [name.toLowerCase(), ...rest])).exec();
  say('pipeline', replies.map(([error, value]) => error ?? value));
  const mixed = await client.pipeline().get(`${PREFIX}p0`).lpush(`${PREFIX}p0`, 'x').get(`${PREFIX}p1`).exec();
  say('pipeline_error', mixed[1][0].message);
  say('after_error', mixed[2][1]);
}

async function transactions(client) {
  const replies = await client.multi().set(`${PREFIX}transaction`, 'a').incr(`${PREFIX}n`).get(`${PREFIX}transaction`).exec();
  say('transaction', replies.map(([error, value]) => error ?? value));
  await client.watch(`${PREFIX}watched`);
  await ask('watched');
  const aborted = await client.multi().set(`${PREFIX}watched`, 'mine').exec();
  say('conflict', aborted === null ? 'aborted' : aborted);
}

async function blocking(client) {
  say('blpop_timeout', await client.blpop(`${PREFIX}none`, 0.05));
  const waiting = client.blpop(`${PREFIX}queue`, 60);
  say('!blocking');
  say('blpop', (await waiting)[1]);
}

async function publishAndSubscribe(client) {
  const subscriber = client.duplicate();
  const inbox = new Inbox();
  subscriber.on('message', (_, message) => inbox.put(message));
  await subscriber.subscribe(`${PREFIX}channel`);
  await ask('subscribed');
  say('published', await client.publish(`${PREFIX}channel`, 'own'));
  say('received', await inbox.take(MESSAGES + 1));
  return { subscriber, inbox };
}

async function scripts(client) {
  say('eval', await client.eval(SCRIPT, 1, `${PREFIX}script`, 'x'));
  say('evalsha', await client.evalsha(await client.script('LOAD', SCRIPT), 1, `${PREFIX}script`, 'y'));
  await client.evalsha(UNKNOWN_SHA, 0).catch((error) => say('noscript', error.message));
}

async function large(client) {
  const value = await client.callBuffer('BLOB.TCP_GET', `${PREFIX}placed`);
  await client.call('BLOB.TCP_SET', `${PREFIX}copy`, value);
  say('large', value.length);
}

async function reconnects(client, { subscriber, inbox }) {
  await ask('kill', await client.client('ID'));
  say('after_kill', await trying(() => client.get(`${PREFIX}p1`)));
  say('new_id', await trying(() => client.client('ID')));
  await ask('restart');
  say('after_restart', await trying(() => client.get(`${PREFIX}p1`)));
  // It subscribes again by itself.
  await trying(async () => ((await client.publish(`${PREFIX}channel`, 'again')) === 1 ? true : undefined));
  say('resubscribed', await inbox.take(1));
  subscriber.disconnect();
}

await run(async () => {
  const client = await connected();
  await pipelines(client);
  await transactions(client);
  await blocking(client);
  const subscription = await publishAndSubscribe(client);
  await scripts(client);
  await large(client);
  await reconnects(client, subscription);
  await client.quit();
});
