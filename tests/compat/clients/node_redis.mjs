// The scenario with node-redis, in RESP2 or RESP3.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { run } from './scenario.mjs';

const { createClient, RESP_TYPES } = createRequire(import.meta.url)('redis');

await run(async (address, protocol) => {
  // Its usual reconnecting would hide a connection that the gateway dropped.
  const client = createClient({ socket: { ...address, reconnectStrategy: false }, RESP: protocol });
  client.on('error', (error) => assert.fail(error));
  await client.connect();
  // Given with each command: sendCommand overlooks what withTypeMapping has set.
  const binary = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } };
  return {
    command: (words) => client.sendCommand(words, binary),
    // Commands issued in one turn leave in one write.
    pipeline: async (list) => {
      const replies = await Promise.allSettled(list.map((words) => client.sendCommand(words, binary)));
      return replies.map((reply) => reply.value ?? reply.reason ?? null);
    },
    typed: async (prefix) => {
      assert.equal(await client.ping(), 'PONG');
      const replies = await client.multi().set(`${prefix}a`, '1').incr(`${prefix}a`).get(`${prefix}a`).mGet([`${prefix}a`, `${prefix}none`]).execAsPipeline();
      assert.deepEqual(replies, ['OK', 2, '2', ['2', null]]);
      await client.hSet(`${prefix}hash`, { a: '1', b: '2' });
      assert.deepEqual({ ...(await client.hGetAll(`${prefix}hash`)) }, { a: '1', b: '2' });
    },
    close: () => client.close(),
  };
});
