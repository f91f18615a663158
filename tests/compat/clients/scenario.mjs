// What every JavaScript client does through the gateway. The caller (test_javascript.py) gives the address, the keys and what it stored itself
// as JSON in the first argument, and takes the digests of what was stored and read here as JSON from stdout; a failed check ends with status 1.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';

const digest = (bytes) => createHash('sha256').update(bytes).digest('hex');

// client: connect(), command(words) and pipeline(list of words), whose replies come as Buffer, number, null, array or Error; typed(prefix), the
// client's own methods; close().
export async function run(makeClient) {
  const task = JSON.parse(process.argv[2]);
  const client = await makeClient(task.address, task.protocol);
  try {
    await client.typed(task.prefix);
    await pipelineInOrder(client, task.prefix);
    await errorsInPlace(client, task.prefix);
    const stored = await storeAndRead(client, task);
    const read = {};
    for (const key of task.read) read[key] = digest(await client.command(['BLOB.TCP_GET', key]));
    process.stdout.write(JSON.stringify({ stored, read }));
  } finally {
    await client.close();
  }
}

async function pipelineInOrder(client, prefix) {
  const words = [];
  const expected = [];
  const text = (value) => Buffer.from(String(value));
  for (let number = 0; number < 500; ++number) {
    words.push(['SET', `${prefix}p${number}`, text(number)], ['GET', `${prefix}p${number}`], ['INCR', `${prefix}counter`]);
    expected.push(text('OK'), text(number), number + 1);
  }
  words.push(['MGET', `${prefix}p1`, `${prefix}nothing`, `${prefix}p2`]);
  expected.push([text(1), null, text(2)]);
  const replies = await client.pipeline(words);
  assert.deepEqual(replies.map(comparable), expected.map(comparable));
}

async function errorsInPlace(client, prefix) {
  const replies = await client.pipeline([
    ['SET', `${prefix}string`, 'text'],
    ['LPUSH', `${prefix}string`, 'x'],
    ['NOSUCH', 'a'],
    ['BLOB.TCP_GET', `${prefix}string`],
    ['BLOB.TCP_GET', `${prefix}nothing`],
    ['GET', `${prefix}string`],
  ]);
  assert.match(replies[1].message, /^WRONGTYPE /);
  assert.match(replies[2].message, /^ERR unknown command 'NOSUCH'/);
  assert.match(replies[3].message, /^WRONGTYPE /);
  assert.equal(replies[4], null);
  assert.equal(replies[5].toString(), 'text');
}

async function storeAndRead(client, task) {
  const stored = {};
  for (const size of task.sizes) {
    const key = `${task.prefix}large${size}`;
    const value = randomBytes(size);
    const replies = await client.pipeline([
      ['BLOB.TCP_SET', key, value],
      ['SET', `${key}:small`, 'between'],
      ['BLOB.TCP_GET', key],
      ['GET', `${key}:small`],
    ]);
    assert.equal(String(replies[0]), 'OK');
    assert.equal(digest(replies[2]), digest(value), `${size} bytes stored and read in one pipeline`);
    assert.equal(replies[3].toString(), 'between');
    stored[key] = digest(value);
  }
  return stored;
}

// Simple and bulk strings differ only in how a client hands them out.
function comparable(reply) {
  if (Array.isArray(reply)) return reply.map(comparable);
  return reply === null || typeof reply === 'number' ? reply : reply.toString();
}
