/** Waiting jobs that look as if another version of sida had written them. */
import type { RedisServer } from './redis.js';

type Edit = (data: Record<string, unknown>) => Record<string, unknown>;

const request = (value: unknown): Edit => {
  return (data) => ({ ...data, request: value });
};

/** Ways to edit the data of a job. */
export const EDITS: [what: string, edit: Edit][] = [
  ['wrong types', request({ kind: 'classify', inputs: [1], labels: 'no' })],
  ['an unknown kind', request({ kind: 'classify-v99', inputs: ['a'] })],
  ['another version of the data', ({ request: about }) => ({ version: 99, request: about })],
];

/** Applies each edit to a different waiting job. Throws unless there are as many jobs as edits. */
export function editJobs(redis: RedisServer, edits: Edit[]): Promise<void> {
  return redis.use(async (client) => {
    const keys = (await client.keys('{sida}:*'))
      .filter((key) => /:[0-9a-f]{8}-[0-9a-f-]{27}$/.test(key))
      .sort();
    if (keys.length !== edits.length) throw new Error(`${keys.length} jobs wait, not ${edits.length}`);
    for (const [i, key] of keys.entries()) {
      const data = JSON.parse((await client.hget(key, 'data'))!) as Record<string, unknown>;
      await client.hset(key, 'data', JSON.stringify(edits[i]!(data)));
    }
  });
}
