// Servers of the same two models share a Redis: each model has a queue of its own.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { metricsOf, REPO, ServerProcess } from '../../../support/server-process.js';

const MODELS = ['switch-tiny', 'olmoe-tiny'];
const PATHS = MODELS.flatMap((name) => ['--model', join(REPO, 'test/fixtures', name)]);
const PROMPT = { prompt: [5, 9, 2, 7], max_tokens: 3, return_token_ids: true };

describeWithRedis('two models behind one Redis', () => {
  let redis: RedisServer;
  let engines: ServerProcess;
  let accepting: ServerProcess;
  beforeAll(async () => {
    redis = await RedisServer.start();
    engines = await ServerProcess.start(['--redis', redis.url, ...PATHS, '--memory-budget', '50%'], 90_000);
    const names = MODELS.flatMap((name) => ['--model', name]);
    accepting = await ServerProcess.start(['--redis', redis.url, '--no-worker', ...names], 60_000);
  }, 180_000);
  afterAll(async () => {
    await accepting?.stop();
    expect(await engines?.stop()).toBe(0);
    await redis?.end();
  });

  it('runs each request on the model that it names, through a server without engines', async () => {
    const answers = [];
    for (const model of MODELS) {
      for (const server of [engines, accepting]) {
        const { status, body } = await server.post('/v1/completions', { ...PROMPT, model });
        answers.push([status, body.model, body.choices?.[0].token_ids]);
      }
    }
    expect(answers.map(([status, model]) => [status, model])).toEqual(
      MODELS.flatMap((name) => [
        [200, name],
        [200, name],
      ]),
    );
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[2]).toEqual(answers[3]);
    const metric = await metricsOf(engines);
    for (const model of MODELS) {
      expect(metric(`sida_queue_jobs_total{outcome="completed",model="${model}"}`)).toBeGreaterThan(0);
    }
  });

  it('answers for a job of either model on every server', async () => {
    const posted = await accepting.post('/v1/jobs', { type: 'completion', ...PROMPT, model: 'olmoe-tiny' });
    expect(posted.status).toBe(202);
    const path = `/v1/jobs/${posted.body.id}`;
    await engines.until(async () => (await engines.get(path)).body.status === 'completed');
    for (const server of [engines, accepting]) {
      expect((await server.get(path)).body.answer.model).toBe('olmoe-tiny');
    }
  });
});
