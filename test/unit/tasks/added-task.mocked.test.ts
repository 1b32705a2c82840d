// Adding a task takes only its folder and an entry in the list. Server, queue and engine process need no change.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { JobRunner } from '../../../src/engine/job-runner.js';
import type { CompletionDelta, FromEngine } from '../../../src/protocol/engine-messages.js';
import type { PreparedRequest } from '../../../src/protocol/inference-messages.js';
import { requestOf } from '../../../src/queue/redis/stored-job.js';
import { plainEncoder } from '../../support/plain-encoder.js';
import { newQuoter } from '../../support/quoter.js';
import { storedAndRead } from '../../support/stored.js';
import { COST } from '../queue/scripted-engine.js';
import { SHAPE } from '../scheduler/scripted-native-engine.js';
import { TestServer } from '../server/test-server.js';
import type { Job, Result } from './next-token-task.js';
import { limitsOf, mini } from './task-fixture.js';

vi.mock('../../../src/tasks/index.js', async (original) => {
  const { nextToken } = await import('./next-token-task.js');
  const { TASKS } = await original<typeof import('../../../src/tasks/index.js')>();
  return { TASKS: [...TASKS, nextToken] };
});

const job: Job = { kind: 'next', texts: ['hello', 'a fine film'], stream: true };
const timing = { tokenizeMs: 0, queueMs: 0, inferenceMs: 0 };
const result: Result = {
  kind: 'next',
  found: [
    { id: 7, length: 5 },
    { id: 9, length: 11 },
  ],
  promptTokens: 8,
  completionTokens: 2,
  experts: COST,
  timing,
};
const whole = { object: 'next_tokens', ids: [7, 9], lengths: [5, 11] };

it('runs in the engine process', () => {
  const sent: FromEngine[] = [];
  const items: PreparedRequest[] = [];
  const jobs = new JobRunner({
    prefixCache: 'per-key',
    quoter: newQuoter(),
    limits: {
      ...limitsOf({ ...SHAPE, vocabSize: 8000 }, { texts: mini }),
      routing: { mode: 'exact', k: 1, predictor: false },
    },
    encoder: plainEncoder(mini),
    batches: { add: (added) => items.push(...added), cancel: () => -1 },
    toInference: () => undefined,
    send: (message) => sent.push(message),
  });
  jobs.start('a', job);
  expect(items.map(({ item, work }) => [item, work.kind])).toEqual([
    [0, 'generate'],
    [1, 'generate'],
  ]);
  jobs.onInference({ type: 'tokens', tokens: [{ item: 1, choice: 0, id: 9 }] });
  jobs.onInference({ type: 'tokens', tokens: [{ item: 0, choice: 0, id: 7 }] });
  jobs.onInference({ type: 'done', item: 0, job: 0 });
  jobs.onInference({ type: 'done', item: 1, job: 0, end: { cost: COST, startedMs: 0, endedMs: 0 } });
  expect(sent.map(({ type }) => type)).toEqual(['deltas', 'deltas', 'result']);
  expect(sent[2]).toMatchObject({ result: { kind: 'next', found: result.found, completionTokens: 2 } });
});

describe('is served', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start();
    server.engine.script = (run) => {
      for (const [index, { id }] of result.found.entries()) {
        const delta: CompletionDelta = {
          index,
          text: '',
          tokenIds: [id],
          logprobs: null,
          finishReason: 'length',
        };
        run.options.onDelta?.(delta);
      }
      run.finish(result as never);
    };
  });
  afterAll(() => server.close());

  it('under its own path, which the OpenAPI document lists', async () => {
    const { status, json: body } = await server.post('/v1/next', { texts: job.texts });
    expect([status, body]).toEqual([200, whole]);
    const refused = await server.post('/v1/next', { texts: job.texts, more: 1 });
    expect(refused.json).toMatchObject({ error: { code: 'invalid_request', param: 'more' } });
    const document = (await server.ask('/openapi.json')).json as {
      paths: object;
      components: { schemas: object };
    };
    expect(Object.keys(document.paths)).toContain('/v1/next');
    expect(Object.keys(document.components.schemas)).toEqual(
      expect.arrayContaining(['NextTokenRequest', 'NextTokens', 'NextJob']),
    );
  });

  it('as a stream', async () => {
    const { text } = await server.post('/v1/next', { texts: job.texts, stream: true });
    expect(text).toBe('data: {"index":0,"id":7}\n\ndata: {"index":1,"id":9}\n\ndata: [DONE]\n\n');
  });

  it('as a kept job', async () => {
    const { status, json: body } = await server.post('/v1/jobs', { type: 'next', texts: job.texts });
    expect(status).toBe(202);
    const { id } = body as { id: string };
    await expect
      .poll(async () => (await server.ask(`/v1/jobs/${id}`)).json)
      .toMatchObject({ type: 'next', status: 'completed', answer: whole });
  });
});

it('is stored in Redis and read back', async () => {
  expect(await storedAndRead(job, result)).toEqual({ request: job, form: { experts: false }, result });
  expect(() => requestOf({ request: { kind: 'next', texts: 7 } })).toThrow(/stream|texts/);
});
