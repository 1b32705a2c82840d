// Jobs wait in Redis whose data this version does not write.
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { jobsIn } from '../support/queue-look.js';
import { clusterFault } from './cluster.js';
import { footprint, MIB } from './subject.js';

type Edit = (data: Record<string, unknown>) => Record<string, unknown>;

const request = (value: unknown): Edit => {
  return (data) => ({ ...data, request: value });
};
const EDITS: [what: string, edit: Edit][] = [
  ['wrong types', request({ kind: 'classify', inputs: [1], labels: 'no' })],
  ['an unknown kind', request({ kind: 'classify-v99', inputs: ['a'] })],
  ['another version of the data', ({ request: about }) => ({ version: 99, request: about })],
];
const JOB_KEY = /:[0-9a-f]{8}-[0-9a-f-]{27}$/;

const options = { workers: 1, serverFlags: ['--deadline', '30s'] };
clusterFault('job data in Redis of another version', options, async (cluster, report) => {
  const { subject, redis, workers, golden } = cluster;
  await workers[0]!.stop();
  const { path, body } = golden[0]!;
  const asked = EDITS.map(() => subject.ask(path, { method: 'POST', body }));
  await eventually(async () => (await jobsIn(redis, 'waiting')) === EDITS.length, 'the jobs');
  await redis.use(async (client) => {
    const keys = (await client.keys('{sida}:*')).filter((key) => JOB_KEY.test(key));
    expect(keys).toHaveLength(EDITS.length);
    for (const [i, [, edit]] of EDITS.entries()) {
      const data = JSON.parse((await client.hget(keys[i]!, 'data'))!);
      await client.hset(keys[i]!, 'data', JSON.stringify(edit(data)));
    }
  });
  await cluster.replace(0);
  const before = footprint(workers[0]!.child.pid!).rssBytes;
  for (const { status, json } of await Promise.all(asked)) {
    expect([500, 503]).toContain(status);
    expect(['internal', 'not_ready']).toContain(json.error.code);
    expect(json.error.message).not.toBe('');
  }
  const grown = (footprint(workers[0]!.child.pid!).rssBytes - before) / MIB;
  report.note(`${EDITS.length} ways: each job failed with a reason, the worker lives`);
  report.atMost('worker grown by', grown, 64, 'MiB');
});
