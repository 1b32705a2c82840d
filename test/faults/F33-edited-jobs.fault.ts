// Jobs wait in Redis whose data this version does not write.
import { expect } from 'vitest';
import { EDITS, editJobs } from '../support/edited-jobs.js';
import { eventually } from '../support/eventually.js';
import { inLedger } from '../support/ledger-look.js';
import { Cluster } from './cluster.js';
import { fault } from './fault.js';
import { footprint } from './subject.js';

const WAYS = EDITS;

fault('F33', 'job data in Redis of another version', async (report) => {
  const cluster = await Cluster.start({ workers: 1, serverFlags: ['--deadline', '30s'] });
  try {
    const { subject, redis, workers, golden } = cluster;
    await workers[0]!.stop();
    const { path, body } = golden[0]!;
    const asked = WAYS.map(() => subject.ask(path, { method: 'POST', body }));
    await eventually(async () => (await inLedger(redis, 'queued')) === WAYS.length, 'the jobs');
    await editJobs(
      redis,
      WAYS.map(([, edit]) => edit),
    );
    await cluster.replace(0);
    const before = footprint(workers[0]!.child.pid!).rssBytes;
    for (const [i, { status, json }] of (await Promise.all(asked)).entries()) {
      expect([500, 503], WAYS[i]![0]).toContain(status);
      expect(['internal', 'not_ready'], WAYS[i]![0]).toContain(json.error.code);
      expect(json.error.message, WAYS[i]![0]).not.toBe('');
    }
    const grown = (footprint(workers[0]!.child.pid!).rssBytes - before) / 1024 ** 2;
    report.note(`${WAYS.length} ways: each job failed with a reason, the worker lives`);
    report.atMost('worker grown by', grown, 64, 'MiB');
    await cluster.recovered(report);
  } finally {
    await cluster.end();
  }
});
