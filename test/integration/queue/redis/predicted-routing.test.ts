// Requests that hash tables route over a shared queue: workers with other predictors must not answer them differently.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { MINI, ServerProcess, sst2 } from '../../../support/server-process.js';
import { WorkerProcess } from '../../../support/worker-process.js';

const SMALL = ['--memory-budget', '20%', '--threads', '1', '--log-level', 'warn'];
const sentences = sst2().slice(0, 40);
const { text } = sentences[0]!;

const asked = (input: string) => ({ task: 'sst2', input, routing: 'predicted' });

describeWithRedis('requests with predicted routing', () => {
  let redis: RedisServer;
  let accepting: ServerProcess;
  const workers: WorkerProcess[] = [];

  async function serveWith(...workersFlags: string[][]): Promise<void> {
    redis = await RedisServer.start();
    for (const flags of workersFlags) {
      workers.push(await WorkerProcess.start(['--redis', redis.url, '--model', MINI, ...SMALL, ...flags]));
    }
    const name = ['--model', 'switch-mini', '--no-worker', '--log-level', 'warn'];
    accepting = await ServerProcess.start(['--redis', redis.url, ...name], 60_000);
  }
  async function end(): Promise<void> {
    await Promise.all([accepting, ...workers.splice(0)].map((process) => process?.stop()));
    await redis?.end();
  }

  describeWithRedis('when workers in exact mode have different predictors', () => {
    let embedded: ServerProcess;
    beforeAll(async () => {
      await serveWith(['--hash-function', 'attention'], ['--predictor', 'none']);
      embedded = await ServerProcess.start(['--redis', redis.url, '--model', MINI, ...SMALL], 60_000);
    }, 180_000);
    afterAll(async () => {
      await embedded?.stop();
      await end();
    });

    it('are refused by every server, each time, with the way out', async () => {
      for (const server of [accepting, embedded]) {
        const answers = await Promise.all(sentences.map(() => server.post('/v1/classify', asked(text))));
        const errors = answers.map(({ status, body }) => [status, body.error?.code, body.error?.param]);
        expect(errors).toEqual(sentences.map(() => [422, 'cannot_run', 'routing']));
        expect(answers[0]!.body.error.message).toContain('--routing predicted');
      }
    });

    it('are refused as jobs before they are accepted', async () => {
      const { status, body } = await accepting.post('/v1/jobs', { type: 'classify', ...asked(text) });
      expect([status, body.error?.code]).toEqual([422, 'cannot_run']);
    });

    it('do not keep exact ones from either worker', async () => {
      const exact = (input: string) => accepting.post('/v1/classify', { ...asked(input), routing: 'exact' });
      const answers = await Promise.all(sentences.map(() => exact(text)));
      for (const { status, body } of answers)
        expect([status, body.data]).toEqual([200, answers[0]!.body.data]);
    });
  });

  describeWithRedis('when the workers are in predicted mode', () => {
    beforeAll(
      () => serveWith(...[0, 1].map(() => ['--routing', 'predicted', '--hash-function', 'attention'])),
      180_000,
    );
    afterAll(end);

    it('get one answer', async () => {
      const answers = await Promise.all(sentences.map(() => accepting.post('/v1/classify', asked(text))));
      for (const { status, body } of answers)
        expect([status, body.data]).toEqual([200, answers[0]!.body.data]);
    });
  });
});
