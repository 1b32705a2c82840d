// Somebody edits waiting jobs in Redis by hand, or another version of the program has written them.
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { inLedger } from '../support/ledger-look.js';
import { clusterFault } from './cluster.js';
import { footprint, MIB } from './subject.js';

const request = (value: unknown) => ['request', typeof value === 'string' ? value : JSON.stringify(value)];
/** Fields of the record of a job. */
const EDITS: [what: string, field: string[]][] = [
  ['wrong types', request({ kind: 'classify', inputs: [1], labels: 'no' })],
  ['not JSON', request('not JSON')],
  ['another version', request({ version: 99, kind: 'classify', inputs: ['a'] })],
  ['another kind', request({ kind: 'classify-v99', inputs: ['a'] })],
  ['100 MiB', request({ kind: 'tokenize', inputs: ['x'.repeat(100 << 20)] })],
  ['attempts that are no number', ['attempts', 'many']],
];

const options = { workers: 1, serverFlags: ['--deadline', '30s'] };
clusterFault('job data in Redis edited by hand', options, async (cluster, report) => {
  const { subject, redis, workers, golden } = cluster;
  await workers[0]!.stop();
  const { path, body } = golden[0]!;
  const asked = EDITS.map(() => subject.ask(path, { method: 'POST', body }));
  await eventually(async () => (await inLedger(redis, 'queued')) === EDITS.length, 'the jobs');
  await redis.use(async (client) => {
    const keys = await client.keys('sida:*:ledger:job:*');
    expect(keys).toHaveLength(EDITS.length);
    for (const [i, [, field]] of EDITS.entries()) await client.hset(keys[i]!, ...field);
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
