// One idempotency key, a hundred times at once, on two servers, and again after a restart of everything.
import { expect } from 'vitest';
import { MINI, ServerProcess } from '../support/server-process.js';
import { Cluster } from './cluster.js';
import { fault } from './fault.js';
import { essence } from './golden.js';
import { KeptJobs, keep } from './kept.js';

const TIMES = 100;

fault('F32', 'the same idempotency key a hundred times', async (report) => {
  const cluster = await Cluster.start();
  const { subject, golden, redis } = cluster;
  const args = ['--model', MINI, '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
  const second = await ServerProcess.start(args);
  let third: ServerProcess | undefined;
  try {
    const ports = [subject.port, Number(new URL(second.url).port)];
    const question = golden.at(-1)!;
    const send = (port: number) => keep(port, question, 'one-key');
    const answers = await Promise.all(Array.from({ length: TIMES }, (_, i) => send(ports[i % 2]!)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
    const ids = new Set(answers.map(({ json }) => json.id as string));
    expect(ids.size).toBe(1);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);

    // Everything but the server that is looked at begins anew, Redis included.
    await second.kill();
    await cluster.workers[0]!.kill();
    await cluster.workers[1]!.kill();
    await redis.down('SIGKILL');
    await redis.up();
    await Promise.all([cluster.replace(0), cluster.replace(1)]);
    third = await ServerProcess.start(args);
    ports[1] = Number(new URL(third.url).port);
    await subject.server.ready(30_000);
    const later = await Promise.all(Array.from({ length: TIMES }, (_, i) => send(ports[i % 2]!)));
    expect(new Set(later.map(({ json }) => json.id))).toEqual(ids);
    const [id] = [...ids];
    const records = await new KeptJobs(
      subject.port,
      Array.from({ length: TIMES }, () => id!),
    ).ended();
    expect(new Set(records.map((record) => JSON.stringify(record))).size).toBe(1);
    expect(essence(records[0]!.answer)).toBe(question.right);
    expect(cluster.told.repeated('ended')).toBe(0);

    const other = await keep(subject.port, golden[0]!, 'one-key');
    expect([other.status, other.json.error.code]).toEqual([422, 'idempotency_conflict']);
    report.note(
      `${2 * TIMES} requests on two servers, before and after a restart: 1 job, run ${records[0].attempts} time(s)`,
    );
    report.note('another request under the key: 422');
    await cluster.recovered(report);
  } finally {
    await Promise.all([second.stop(), third?.stop()]);
    await cluster.end();
  }
});
