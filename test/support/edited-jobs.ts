/** Edits that a client with write access to Redis might make to a waiting job. */
import type { RedisServer } from './redis.js';

type Edit = (key: string) => [command: string, ...(string | number)[]];

const request = (value: unknown): Edit => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return (key) => ['hset', key, 'request', text];
};

/** Ways to edit the record `key` of a job. */
export const EDITS: [what: string, edit: Edit][] = [
  ['wrong types', request('{"kind":"classify","inputs":[1],"labels":"no"}')],
  ['not JSON', request('not JSON')],
  ['another version of the schema', request({ version: 99, kind: 'classify-v99', inputs: ['a'] })],
  ['20 MiB', request({ kind: 'tokenize', inputs: ['x'.repeat(20 << 20)] })],
  ['attempts that are no number', (key) => ['hset', key, 'attempts', 'many']],
  ['another type of value', (key) => ['set', key, 'not a record']],
  ['a status that there is not', (key) => ['hset', key, 'status', 'finished']],
  ['no record any more', (key) => ['del', key]],
];

/** Applies each edit to a different waiting job. Throws unless there are as many jobs as edits. */
export function editJobs(redis: RedisServer, edits: Edit[]): Promise<void> {
  return redis.use(async (client) => {
    const keys = (await client.keys('sida:*:ledger:job:*')).sort();
    if (keys.length !== edits.length) throw new Error(`${keys.length} jobs wait, not ${edits.length}`);
    for (const [i, key] of keys.entries()) {
      const [command, ...args] = edits[i]!(key);
      await client.call(command, ...args);
    }
  });
}
