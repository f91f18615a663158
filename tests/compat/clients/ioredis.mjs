// The scenario with ioredis, which speaks RESP2 only.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { run } from './scenario.mjs';

const Redis = createRequire(import.meta.url)('ioredis');

await run(async (address) => {
  // Its usual retries would hide a connection that the gateway dropped.
  const client = new Redis({ ...address, retryStrategy: null, maxRetriesPerRequest: 0 });
  client.on('error', (error) => assert.fail(error));
  await once(client, 'ready');
  return {
    command: ([name, ...rest]) => client.callBuffer(name, ...rest),
    pipeline: async (list) => {
      const replies = await Promise.allSettled(list.map(([name, ...rest]) => client.callBuffer(name, ...rest)));
      return replies.map((reply) => reply.value ?? reply.reason ?? null);
    },
    typed: async (prefix) => {
      assert.equal(await client.ping(), 'PONG');
      const replies = await client.pipeline().set(`${prefix}a`, '1').incr(`${prefix}a`).get(`${prefix}a`).mget(`${prefix}a`, `${prefix}none`).exec();
      assert.deepEqual(replies, [[null, 'OK'], [null, 2], [null, '2'], [null, ['2', null]]]);
      await client.hset(`${prefix}hash`, { a: '1', b: '2' });
      assert.deepEqual(await client.hgetall(`${prefix}hash`), { a: '1', b: '2' });
    },
    close: () => client.quit(),
  };
});
