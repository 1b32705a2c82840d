// Redis is not there when server and worker start, and comes later.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { RedisServer } from '../support/redis.js';
import { MINI, ServerProcess } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { FAST, SMALL } from './cluster.js';
import { essence, goldenQuestions } from './golden.js';
import { aStart } from './quiet.js';
import { serverFault } from './subject.js';

// The fault's server is one without Redis, meanwhile and beside.
serverFault('Redis absent at the start, there later', { args: ['--threads', '1'] }, async (alone, report) => {
  const questions = (await goldenQuestions()).slice(0, 20);
  const redis = await RedisServer.absent();
  const flags = ['--model', MINI, '--redis', redis.url, ...SMALL, ...FAST];
  const server = await ServerProcess.launch(flags);
  const worker = new WorkerProcess(flags);
  try {
    await server.until(() => server.output.includes(' serves '));
    for (let probes = 0; probes < 30; probes += 1) {
      const { status, body } = await server.get('/health/ready');
      const expected = [503, 'queue_unavailable', 'Redis cannot be reached'];
      expect([status, body.phase, body.reason]).toEqual(expected);
      const refused = await server.post(questions[0]!.path, questions[0]!.body);
      expect([refused.status, refused.body.error.code]).toEqual([503, 'not_ready']);
      await delay(100);
    }
    await alone.good();
    await redis.up();
    const seconds = (await server.ready(30_000)) / 1000;
    for (const { path, body, right } of questions) {
      const answer = await server.post(path, body);
      expect([answer.status, essence(answer.body)]).toEqual([200, right]);
    }
    const output = server.output + worker.output;
    expect([server.alive, worker.alive], output).toEqual([true, true]);
    expect(output).not.toMatch(/unhandledRejection|uncaughtException|This is a bug/i);
    report.note(`not ready with the reason for 3 s, then ${questions.length} right answers`);
    report.withinTime('ready after', seconds, 25, 's', await aStart(25));
  } finally {
    await Promise.all([server.stop(), worker.stop()]);
    await redis.end();
  }
});
