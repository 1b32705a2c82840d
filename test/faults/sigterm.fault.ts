// A server with a worker of its own is told to end under load: once, and a second time.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Answer, ask } from '../support/http-client.js';
import { someRun } from '../support/queue-look.js';
import { RedisServer } from '../support/redis.js';
import { MINI, metricsOf, ServerProcess } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { FAST, LOCK_MS, SMALL } from './cluster.js';
import { fault } from './fault.js';
import { essence, goldenQuestions, longQuestions, type Question } from './golden.js';
import { keepAll } from './kept.js';
import { aTimer } from './quiet.js';
import { Subject } from './subject.js';

const DRAIN_MS = 30_000;
const runsJobs = (redis: RedisServer) => ['--redis', redis.url, '--model', MINI, ...SMALL, ...FAST];

/** Undefined: the connection was refused or broke. */
function send(port: number, { path, body }: Question): Promise<Answer | undefined> {
  return ask(port, path, { method: 'POST', body }).catch(() => undefined);
}

fault('SIGTERM under load', async (report) => {
  const golden = await goldenQuestions();
  const redis = await RedisServer.start();
  const leaving = await ServerProcess.start(runsJobs(redis));
  const staying = await Subject.start('--redis', redis.url, ...SMALL, ...FAST);
  try {
    const { port } = leaving;
    // Nothing ends while both engines are frozen: all of them are in flight at the signal.
    const engines = [leaving, staying.server].map((server) => server.enginePids()[0]!);
    for (const engine of engines) process.kill(engine, 'SIGSTOP');
    const kept = await keepAll(port, golden);
    const inFlight = golden.map((question) => send(port, question));
    await leaving.until(
      async () => (await metricsOf(leaving))('sida_queue_accepted_total') === 2 * golden.length,
    );
    leaving.child.kill('SIGTERM');
    const told = performance.now();
    const exited = leaving.exit.then((code) => ({ code, ms: performance.now() - told }));
    await delay(200);
    const late = await Promise.all(golden.slice(0, 20).map((question) => send(port, question)));
    for (const engine of engines) process.kill(engine, 'SIGCONT');
    for (const answer of late) {
      const found = [answer?.status, answer?.headers.connection, answer?.json.error.code];
      expect(found).toEqual([503, 'close', 'shutting_down']);
    }
    const answers = await Promise.all(inFlight);
    expect(answers.map((answer) => essence(answer?.json))).toEqual(golden.map(({ right }) => right));
    const { code, ms } = await exited;
    expect(code, leaving.output).toBe(0);
    await kept.rightly(golden, staying.port);
    report.note(`${golden.length} requests in flight answered, ${late.length} later ones refused, exit 0`);
    report.note(`${golden.length} kept jobs ended, here or elsewhere`);
    report.withinTime('ended after', ms / 1000, DRAIN_MS / 1000, 's', await aTimer(45));
    await staying.recovered(report);
  } finally {
    await Promise.all([leaving.stop(), staying.stop()]);
    await redis.end();
  }
});

fault('a second SIGTERM or SIGINT', async (report) => {
  const questions = await longQuestions(8, 400);
  const redis = await RedisServer.start();
  const first = await WorkerProcess.start(runsJobs(redis));
  const subject = await Subject.start('--redis', redis.url, '--no-worker');
  let [left, slowestMs] = [0, 0];
  await first.stop();
  try {
    for (const second of ['SIGTERM', 'SIGINT'] as const) {
      const leaving = await ServerProcess.start(runsJobs(redis));
      // So that none of the jobs ends before the server does.
      process.kill(leaving.enginePids()[0]!, 'SIGSTOP');
      const kept = await keepAll(leaving.port, questions);
      await someRun(redis, questions.length);
      leaving.child.kill('SIGTERM');
      await delay(150);
      leaving.child.kill(second);
      const signalled = performance.now();
      const code = await leaving.exit;
      slowestMs = Math.max(slowestMs, performance.now() - signalled);
      expect(code, leaving.output).toBeGreaterThan(128);
      const worker = await WorkerProcess.start(runsJobs(redis));
      const records = await kept.rightly(questions, subject.port, LOCK_MS + 30_000);
      left += records.filter(({ attempts }) => attempts > 1).length;
      await worker.stop();
    }
    report.note(`${left} of ${2 * questions.length} jobs were left and run elsewhere`);
    expect(left).toBeGreaterThan(0);
    report.withinTime('ended after', slowestMs / 1000, 1, 's', await aTimer(3));
    const worker = await WorkerProcess.start(runsJobs(redis));
    await subject.recovered(report);
    await worker.stop();
  } finally {
    await subject.stop();
    await redis.end();
  }
});
