// A server of two models: requests choose one, and each has its own queue, engine and metrics.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SharedBudget } from '../../../src/server/shared-budget.js';
import { MODEL, SPLIT } from '../queue/scripted-engine.js';
import { type Answer, TestServer } from './test-server.js';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start({}, ['a', 'b']);
});
afterEach(() => server.close());

const classify = (model?: string) =>
  server.post('/v1/classify', { ...(model !== undefined && { model }), task: 'sst2', input: 'x' });
const started = () => server.engines.map((engine) => engine.started.length);
const error = ({ status, json }: Answer) => [status, json.error.code];

describe('a request', () => {
  it('runs on the model that it names, on every route of a task', async () => {
    expect((await classify('b')).json.model).toBe('b');
    const completion = await server.post('/v1/completions', { model: 'b', prompt: 'x' });
    expect(completion.json.model).toBe('b');
    expect((await server.post('/v1/tokenize', { model: 'b', input: 'x' })).status).toBe(200);
    expect(started()).toEqual([0, 3]);
  });

  it('runs on the first model when it names none', async () => {
    expect((await classify()).json.model).toBe('a');
    expect(started()).toEqual([1, 0]);
  });

  it('is refused with the names of all models when it names another', async () => {
    const answer = await classify('c');
    expect(error(answer)).toEqual([404, 'model_not_found']);
    expect(answer.json.error).toMatchObject({
      message: 'The model "c" is not served here; "a" and "b" are',
      param: 'model',
    });
  });

  it.each([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }] }],
    ['/v1/responses', { input: 'x' }],
    ['/v1/embeddings', { input: 'x' }],
    ['/v1/detokenize', { ids: [7] }],
    ['/v1/translate', { input: 'x', source: 'eng_Latn', target: 'deu_Latn' }],
    ['/v1/jobs', { type: 'completion', prompt: 'x' }],
  ])('is refused on %s too', async (path, body) => {
    expect(error(await server.post(path, { ...body, model: 'c' }))).toEqual([404, 'model_not_found']);
  });

  it('waits only for its own model', async () => {
    server.engines[1]!.model = undefined;
    server.engines[1]!.enter('loading');
    const answer = await classify('b');
    expect(error(answer)).toEqual([503, 'not_ready']);
    expect(answer.json.error.message).toBe('The model "b" is not ready: the engine is loading');
    expect((await classify('a')).status).toBe(200);
    expect(error(await classify('c'))).toEqual([404, 'model_not_found']);
  });

  it('is not disturbed by a crash of another engine, whose requests run again', async () => {
    server.engines[1]!.script = undefined;
    const waiting = classify('b');
    while (server.engines[1]!.runs.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    server.engines[1]!.crash();
    expect((await classify('a')).status).toBe(200);
    server.engines[1]!.script = (run) => run.finish();
    server.engines[1]!.enter('ready');
    expect((await waiting).json.model).toBe('b');
  });
});

describe('a kept job', () => {
  it('runs on its model, and is found, watched and cancelled by its id alone', async () => {
    const posted = await server.post('/v1/jobs', {
      type: 'classify',
      model: 'b',
      task: 'sst2',
      input: 'x',
    });
    expect(posted.status).toBe(202);
    const path = `/v1/jobs/${posted.json.id}`;
    const events = await server.ask(`${path}/events`);
    expect(events.text).toContain('"status":"completed"');
    expect((await server.ask(path)).json.answer.model).toBe('b');
    expect((await server.ask(path, { method: 'DELETE' })).json.status).toBe('completed');
    expect(started()).toEqual([0, 1]);
  });

  it('is not found when no model has it', async () => {
    for (const path of ['', '/events']) {
      const answer = await server.ask(`/v1/jobs/00000000-0000-4000-8000-000000000000${path}`);
      expect(error(answer)).toEqual([404, 'not_found']);
    }
  });
});

describe('the list of models', () => {
  it('has every open model, with its family, context, chat, predictor, routing and state', async () => {
    server.engines[1]!.model = {
      ...MODEL,
      name: 'b',
      chat: null,
      predictor: { name: 'lstm', fingerprint: null, warnings: [] },
      routing: 'predicted',
    };
    server.engines[1]!.enter('restarting');
    const { data } = (await server.ask('/v1/models')).json;
    const family = 'switch_transformers';
    expect(data).toMatchObject([
      {
        id: 'a',
        family,
        context_tokens: 2048,
        max_model_len: 2048,
        chat: true,
        predictor: null,
        routing: 'exact',
        state: 'ready',
      },
      {
        id: 'b',
        family,
        context_tokens: 2048,
        max_model_len: 2048,
        chat: false,
        predictor: 'lstm',
        routing: 'predicted',
        state: 'restarting',
      },
    ]);
    expect((await server.ask('/v1/models/b')).json).toEqual(data[1]);
    server.engines[0]!.model = undefined;
    expect((await server.ask('/v1/models')).json.data.map(({ id }: { id: string }) => id)).toEqual(['b']);
  });
});

describe('an admin route', () => {
  beforeEach(() => {
    for (const engine of server.engines) {
      engine.onControl = ({ kind }) =>
        kind === 'experts'
          ? { kind, layers: [] }
          : { kind: 'usage', usage: engine.model!.usage, split: SPLIT };
    }
  });
  const controls = () => server.engines.map((engine) => engine.controls.map(({ kind }) => kind));

  it('concerns the model of the query', async () => {
    expect((await server.ask('/admin/budget?model=b')).status).toBe(200);
    expect((await server.ask('/admin/experts?model=a')).status).toBe(200);
    const put = await server.ask('/admin/budget?model=b', { method: 'PUT', body: { device: '1GiB' } });
    expect(put.status).toBe(200);
    expect(controls()).toEqual([['experts'], ['usage', 'set-budget']]);
  });

  it('tells the engine what the others leave of a shared budget', async () => {
    await server.close();
    const budgets = new Map([
      ['a', 50],
      ['b', 30],
    ]);
    server = await TestServer.start({}, ['a', 'b'], new SharedBudget(80, budgets));
    for (const engine of server.engines) {
      engine.onControl = (request) => {
        if (request.kind !== 'set-budget') throw new Error(request.kind);
        const usage = { ...engine.model!.usage, budgetBytes: Number(request.device) };
        return { kind: 'set-budget', usage, split: SPLIT };
      };
    }
    const put = (model: string, device: number) =>
      server.ask(`/admin/budget?model=${model}`, { method: 'PUT', body: { device } });
    expect((await put('a', 20)).status).toBe(200);
    expect((await put('b', 60)).status).toBe(200);
    expect((await put('a', 10)).status).toBe(200);
    const shared = server.engines.map(({ controls: own }) =>
      own.map((each) => 'shared' in each && each.shared),
    );
    expect(shared).toEqual([
      [
        { total: 80, others: 30 },
        { total: 80, others: 60 },
      ],
      [{ total: 80, others: 20 }],
    ]);
  });

  it('does not guess which model is meant', async () => {
    const answer = await server.ask('/admin/budget');
    expect(error(answer)).toEqual([400, 'invalid_request']);
    expect(answer.json.error).toMatchObject({
      message: 'This server has 2 models: say which one with ?model=a or ?model=b',
      param: 'model',
    });
    expect(error(await server.ask('/admin/experts?model=a&model=b'))).toEqual([400, 'invalid_request']);
    expect(error(await server.ask('/admin/experts?model=c'))).toEqual([404, 'model_not_found']);
    expect(error(await server.post('/admin/profile', { seconds: 1 }))).toEqual([400, 'invalid_request']);
    expect(controls()).toEqual([[], []]);
  });
});

describe('readiness', () => {
  const readiness = async () => {
    const { status, json } = await server.ask('/health/ready');
    return [
      status,
      json.status,
      json.phase,
      json.reason,
      json.models.map(({ phase }: { phase: string }) => phase),
    ];
  };

  it('needs every model to have been open once', async () => {
    expect(await readiness()).toEqual([200, 'ready', 'ready', null, ['ready', 'ready']]);
    server.engines[1]!.model = undefined;
    server.engines[1]!.enter('loading');
    const reason = 'b: The model is being loaded';
    expect(await readiness()).toEqual([503, 'not_ready', 'loading', reason, ['ready', 'loading']]);
  });

  it('is degraded while some engine restarts, and gone when all do', async () => {
    server.engines[0]!.crash();
    const reason = 'a: The engine process stopped and is being started again';
    expect(await readiness()).toEqual([200, 'degraded', 'restarting', reason, ['restarting', 'ready']]);
    server.engines[1]!.crash();
    expect(await readiness()).toEqual([503, 'not_ready', 'restarting', reason, ['restarting', 'restarting']]);
  });
});

describe('metrics', () => {
  it('of a model carry its name, and every name stands once', async () => {
    await classify('b');
    server.engines[1]!.script = (run) => {
      run.options.onDelta!({ index: 0, text: 'x', tokenIds: [7], logprobs: null, finishReason: null });
      run.finish();
    };
    await server.post('/v1/completions', { model: 'b', prompt: 'x', stream: true });
    const { text } = await server.ask('/metrics');
    expect(text).toContain('\nsida_queue_jobs_total{outcome="completed",model="a"} 0\n');
    expect(text).toContain('\nsida_queue_jobs_total{outcome="completed",model="b"} 2\n');
    expect(text).toContain('\nsida_time_to_first_token_seconds_count{kind="complete",model="b"} 1\n');
    expect(text).not.toMatch(/^sida_time_to_first_token_seconds_count.*model="a"/m);
    expect(text).toMatch(/^sida_build_info\{version=.*,model="a"\} 1$/m);
    expect(text).toContain('\nsida_engine_ready{model="a"} 1\n');
    expect(text).toContain('\nsida_job_inference_seconds_count{kind="classify",model="b"} 1\n');
    expect(text).toContain('\nsida_http_requests_total{route="/v1/classify",method="POST",status="200"} 1\n');
    const described = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    expect(new Set(described).size).toBe(described.length);
    expect(text).not.toMatch(/\n\n\n|[^\n]$/);
  });
});
