// One idempotency key, a hundred times at once, on two servers, and again after a restart of everything.
import { expect } from 'vitest';
import { MINI, ServerProcess } from '../support/server-process.js';
import { clusterFault } from './cluster.js';
import { KeptJobs, keep } from './kept.js';

const TIMES = 100;

clusterFault('the same idempotency key a hundred times', {}, async (cluster, report) => {
  const { subject, golden, redis, workers } = cluster;
  const args = ['--model', MINI, '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
  let second = await ServerProcess.start(args);
  try {
    const question = golden.at(-1)!;
    const send = async () => {
      const ports = [subject.port, second.port];
      const times = Array.from({ length: TIMES }, (_, i) => keep(ports[i % 2]!, question, 'one-key'));
      const answers = await Promise.all(times);
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
      const ids = [...new Set(answers.map(({ json }) => json.id as string))];
      return { ids, first: answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined) };
    };
    const { ids, first } = await send();
    expect([ids.length, first.length]).toEqual([1, 1]);

    // Everything but the server that is looked at begins anew, Redis included.
    await second.kill();
    await Promise.all(workers.map((worker) => worker.kill()));
    await redis.down('SIGKILL');
    await redis.up();
    await Promise.all([cluster.replace(0), cluster.replace(1)]);
    second = await ServerProcess.start(args);
    await subject.server.ready(30_000);
    expect((await send()).ids).toEqual(ids);
    const [record] = await new KeptJobs(subject.port, ids).rightly([question]);
    expect(await new KeptJobs(second.port, ids).ended()).toEqual([record]);

    const other = await keep(subject.port, golden[0]!, 'one-key');
    expect([other.status, other.json.error.code]).toEqual([422, 'idempotency_conflict']);
    report.note(`${2 * TIMES} requests before and after a restart: 1 job, run ${record.attempts} time(s)`);
    report.note('another request under the key: 422');
  } finally {
    await second.stop();
  }
});
