// A server or a worker stops in its tracks (SIGSTOP), and goes on as if nothing had been.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { someRun } from '../support/queue-look.js';
import { clusterFault, LOCK_MS } from './cluster.js';
import { longQuestions } from './golden.js';
import { keepAll } from './kept.js';
import { serverFault } from './subject.js';

const SERVER_MS = 13_000;

// The engine has done nothing wrong.
serverFault('a server frozen for longer than its engine may be silent', {}, async (subject, report) => {
  const engines = subject.server.enginePids();
  for (let times = 0; times < 2; times += 1) {
    subject.server.child.kill('SIGSTOP');
    await delay(SERVER_MS);
    subject.server.child.kill('SIGCONT');
    await subject.good();
    // Time for a kill to be seen.
    await delay(1_500);
    expect(subject.server.enginePids()).toEqual(engines);
  }
  const metric = await subject.metrics();
  expect([metric('sida_engine_restarts_total'), metric('sida_engine_ready')]).toEqual([0, 1]);
  report.note(`twice ${SERVER_MS / 1000} s: the same engine answers, rightly`);
});

clusterFault('a worker frozen for three lock durations', { workers: 1 }, async (cluster, report) => {
  const { subject, redis, workers } = cluster;
  const questions = await longQuestions(1);
  const fenced = () => workers[0]!.output.split('a late result was dropped').length - 1;
  const { child } = workers[0]!;
  const engine = workers[0]!.enginePids()[0]!;
  // So that the job does not end before the worker stops; the engine then does its work all the same.
  process.kill(engine, 'SIGSTOP');
  const kept = await keepAll(subject.port, questions);
  await someRun(redis);
  child.kill('SIGSTOP');
  process.kill(engine, 'SIGCONT');
  const frozen = performance.now();
  await cluster.add();
  await delay(3 * LOCK_MS - (performance.now() - frozen));
  const [record] = await kept.rightly(questions);
  child.kill('SIGCONT');
  await subject.server.until(() => fenced() > 0);
  await delay(1_000);
  const late = fenced();
  report.note(`run ${record.attempts} times, ${late} late result fenced off`);
  expect([late, record.attempts]).toEqual([1, 2]);
  expect(await kept.ended()).toEqual([record]);
});
