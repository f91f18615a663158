// How a JavaScript program of the scenario gets its task and talks to scenario.py.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

export const load = createRequire(import.meta.url);  // import does not look at NODE_PATH
export const PREFIX = process.env.KF_PREFIX;
export const PROTOCOL = Number(process.env.KF_PROTOCOL);
export const UNIX = process.env.KF_UNIX;
export const HOST = process.env.KF_HOST;
export const PORT = Number(process.env.KF_PORT);
export const CACHE = Boolean(process.env.KF_CACHE);
export const PAIRS = 100;
export const MESSAGES = 50;
export const CACHED_READS = 50;
export const SCRIPT = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}";
export const UNKNOWN_SHA = 'f'.repeat(40);
const PATIENCE = 100_000;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const text = (value) => (value === null || value === undefined ? 'nil' : Array.isArray(value) ? value.map(text).join(',') : String(value));

export const say = (name, value = '') => process.stdout.write(`${name}\t${text(value)}\n`);

export async function ask(name, value = '') {
  say(`?${name}`, value);
  await answers.next();
}

// attempt() again and again until it gives something else than undefined and throws nothing, within bounds.
export async function trying(attempt) {
  const limit = Date.now() + PATIENCE;
  let last;
  while (Date.now() < limit) {
    try {
      const seen = await attempt();
      if (seen !== undefined) return seen;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`tried in vain: ${last}`);
}

// The words of the pipeline that every client sends, each [command, ...arguments].
export function pipelineWords() {
  const words = [];
  for (let number = 0; number < PAIRS; ++number) {
    words.push(['INCR', `${PREFIX}counter`], ['SET', `${PREFIX}p${number}`, `v${number}`], ['GET', `${PREFIX}p${number}`]);
  }
  return words;
}

// A queue of messages that a listener fills: take(count) waits for so many.
export class Inbox {
  #messages = [];
  #waiting = () => {};

  put(message) {
    this.#messages.push(message);
    this.#waiting();
  }

  async take(count) {
    while (this.#messages.length < count) await new Promise((resolve) => (this.#waiting = resolve));
    return this.#messages.splice(0, count);
  }
}

// Ends the program: what a client leaves behind in the event loop must not keep it.
export async function run(main) {
  try {
    await main();
    process.exit(0);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}
