// A worker stops in its tracks for three times as long as its locks hold, and goes on as if nothing had been.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { someRun } from '../support/ledger-look.js';
import { Cluster, LOCK_MS } from './cluster.js';
import { fault } from './fault.js';
import { answered, essence } from './golden.js';
import { keepAll } from './kept.js';

const LONG = {
  type: 'completion' as const,
  path: '/v1/completions',
  body: { prompt: 'The film was <extra_id_0>.', max_tokens: 300 },
};

fault('F3', 'a worker frozen (SIGSTOP) for three lock durations', async (report) => {
  const questions = await answered([LONG]);
  const cluster = await Cluster.start({ workers: 1 });
  try {
    const { subject, redis, workers } = cluster;
    const fenced = () => workers[0]!.output.split('a late result was dropped').length - 1;
    const { child } = workers[0]!;
    const engine = workers[0]!.enginePids()[0]!;
    // So that the job does not end before the worker stops; the engine then does its work all the same.
    process.kill(engine, 'SIGSTOP');
    const kept = await keepAll(subject, questions);
    await someRun(redis);
    child.kill('SIGSTOP');
    process.kill(engine, 'SIGCONT');
    const frozen = performance.now();
    await cluster.add();
    await delay(3 * LOCK_MS - (performance.now() - frozen));
    const [record] = await kept.ended();
    child.kill('SIGCONT');
    await subject.server.until(() => fenced() > 0);
    await delay(1_000);
    const late = fenced();
    report.note(`run ${record.attempts} times, ${late} late result fenced off`);
    expect(late).toBe(1);
    expect([record.status, record.attempts, essence(record.answer)]).toEqual([
      'completed',
      2,
      questions[0]!.right,
    ]);
    expect(await kept.ended()).toEqual([record]);
    await cluster.recovered(report);
  } finally {
    await cluster.end();
  }
});
