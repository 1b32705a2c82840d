// Two models share a Redis: the jobs of one are never run by the workers of the other, however long they wait.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { RedisServer } from '../support/redis.js';
import { MINI, ServerProcess } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { FAST, LOCK_MS, SMALL } from './cluster.js';
import { fault } from './fault.js';
import { essence, goldenQuestions, type Question } from './golden.js';
import { keepAll } from './kept.js';
import { Subject } from './subject.js';

fault('two models on one Redis', async (report) => {
  const golden = (await goldenQuestions()).slice(0, 40);
  const redis = await RedisServer.start();
  const shared = ['--redis', redis.url, ...SMALL, ...FAST];
  const exact = await Subject.start(...shared);
  // Other numbers meet the weights, so the answers differ: another model.
  const rounded = ['--model', MINI, '--experts', 'int8', ...shared];
  const first = await WorkerProcess.start(rounded);
  const other = await ServerProcess.start(rounded);
  let late: WorkerProcess | undefined;
  try {
    // What the rounded model answers, from the two that serve it alone.
    const answers = await Promise.all(golden.map(({ path, body }) => other.post(path, body)));
    const roundedGolden: Question[] = golden.map((question, i) => ({
      ...question,
      right: essence(answers[i]!.body),
    }));
    const different = roundedGolden.filter(({ right }, i) => right !== golden[i]!.right).length;
    expect(different).toBeGreaterThan(0);

    const front = ['--model', 'switch-mini', '--redis', redis.url, '--no-worker'];
    const unclear = await ServerProcess.launch(front);
    await unclear.until(async () => {
      const answer = await unclear.get('/health/ready').catch(() => undefined);
      return /Workers serve 2 models/.test(answer?.body.reason ?? '');
    });
    expect((await unclear.post(golden[0]!.path, golden[0]!.body)).status).toBe(503);
    await unclear.stop();

    await Promise.all([
      keepAll(exact.port, golden).then((kept) => kept.rightly(golden)),
      keepAll(other.port, roundedGolden).then((kept) => kept.rightly(roundedGolden)),
    ]);

    // Without a worker of theirs, jobs wait beside one of the other model that has nothing to do.
    await first.stop();
    const engines = other.enginePids();
    for (const engine of engines) process.kill(engine, 'SIGSTOP');
    const waiting = await keepAll(other.port, roundedGolden);
    await other.kill();
    // Frozen ones do not see that their server has gone.
    for (const engine of engines) process.kill(engine, 'SIGKILL');
    await delay(3 * LOCK_MS);
    await exact.good();
    late = await WorkerProcess.start(rounded);
    const reader = await ServerProcess.start(rounded);
    await waiting.rightly(roundedGolden, reader.port);
    await reader.stop();
    report.note(`${different} of ${golden.length} answers differ; each job got its own model's`);
    report.note(`jobs without a worker of theirs waited ${(3 * LOCK_MS) / 1000} s beside an idle one`);
    await exact.recovered(report);
  } finally {
    await Promise.all([exact.stop(), first.stop(), other.stop(), late?.stop()]);
    await redis.end();
  }
});
