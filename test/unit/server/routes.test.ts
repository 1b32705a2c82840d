// The answers of each route.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SidaError } from '../../../src/errors.js';
import type { ControlRequest, EngineCounters } from '../../../src/protocol/engine-messages.js';
import { ROUTES } from '../../../src/server/routes/index.js';
import type { TaskJob } from '../../../src/tasks/registry.js';
import { VERSION } from '../../../src/version.js';
import { answerTo, MODEL, SPLIT } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

let server: TestServer;
let last: TaskJob | undefined;
beforeAll(async () => {
  server = await TestServer.start();
});
beforeEach(() => {
  server.engine.model = MODEL;
  server.engine.enter('ready');
  server.engine.script = (run) => {
    last = run.request;
    run.finish();
  };
});
afterAll(() => server.close());

describe('POST /v1/classify', () => {
  it('answers one entry for an input, with timing headers', async () => {
    const answer = await server.post('/v1/classify', { task: 'sst2', input: 'a fine film' });
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({
      object: 'classification',
      model: 'switch-mini',
      data: [{ index: 0, label: 'negative', scores: { negative: 0.75, positive: 0.25 } }],
      usage: { prompt_tokens: 9 },
    });
    expect(last).toEqual({
      kind: 'classify',
      explain: false,
      routing: { mode: null, k: null },
      inputs: ['sst2 sentence: a fine film'],
      labels: ['negative', 'positive'],
    });
    expect(Number(answer.headers['x-queue-time'])).toBeGreaterThanOrEqual(1);
    expect(answer.headers['x-inference-time']).toBe('2.000');
  });

  it('fills the fields of a template', async () => {
    const body = { task: 'mrpc', input: [{ text1: 'a {text2}', text2: '$& b' }] };
    expect((await server.post('/v1/classify', body)).status).toBe(200);
    expect(last).toMatchObject({ inputs: ['mrpc sentence1: a {text2} sentence2: $& b'] });
  });

  it('uses the template and labels of the request', async () => {
    const body = { template: 'is {x} {curly }?', labels: ['no', 'yes'], input: ['a', { x: 'b' }] };
    expect((await server.post('/v1/classify', body)).json.data).toHaveLength(2);
    expect(last).toMatchObject({ inputs: ['is a {curly }?', 'is b {curly }?'], labels: ['no', 'yes'] });
  });

  it('reports the cost in experts on request', async () => {
    const { json } = await server.post('/v1/classify', { task: 'sst2', input: 'a', include: ['experts'] });
    expect(json.experts).toEqual({
      needed: 5,
      resident: 3,
      prefetched: 0,
      late: 0,
      on_demand: 2,
      peer: 0,
      cpu: 0,
      loaded: 2,
      bytes_moved: 100,
      stall_ms: 0.5,
      predicted: 0,
      hits_top1: 0,
      hits_top3: 0,
    });
  });

  it.each<[string, object, string | null, RegExp]>([
    ['no input', { task: 'sst2' }, 'input', /Expected a text/],
    ['no task', { input: 'a' }, 'task', /Expected a task/],
    [
      'unknown task',
      { task: 'toString', input: 'a' },
      'task',
      /no task "toString": its tasks are sst2, mrpc/,
    ],
    ['task and labels', { task: 'sst2', labels: ['a', 'b'], input: 'a' }, 'labels', /beside "task"/],
    ['template without labels', { template: '{a}', input: 'a' }, 'labels', /labels that belong/],
    [
      'template without a field',
      { template: 'a', labels: ['a', 'b'], input: 'a' },
      'template',
      /field in braces/,
    ],
    ['one label', { template: '{a}', labels: ['a'], input: 'a' }, 'labels', /labels/],
    ['a label twice', { template: '{a}', labels: ['a', 'a'], input: 'a' }, 'labels', /once/],
    ['a number as input', { task: 'sst2', input: 5 }, 'input', /Expected a text/],
    ['no inputs', { task: 'sst2', input: [] }, 'input', /at least 1 entry/],
    ['33 inputs', { task: 'sst2', input: Array(33).fill('a') }, 'input', /1 to 32/],
    ['text for two fields', { task: 'mrpc', input: ['a'] }, 'input.0', /fields "text1", "text2"/],
    [
      'more fields than a template has',
      { task: 'mrpc', input: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, 'a'])) },
      'input',
      /up to 64 template fields/,
    ],
    [
      'a missing field',
      { task: 'mrpc', input: { text1: 'a' } },
      'input',
      /lacks "text2": the input gives "text1", the template needs "text1", "text2"/,
    ],
    ['an extra field', { task: 'sst2', input: { text: 'a', b: 'c' } }, 'input', /no field "b"/],
    [
      'an inherited field',
      { template: '{toString}', labels: ['a', 'b'], input: {} },
      'input',
      /lacks "toString"/,
    ],
    ['an unknown include', { task: 'sst2', input: 'a', include: ['all'] }, 'include.0', /experts/],
    ['an unknown field', { task: 'sst2', input: 'a', top_k: 3 }, 'top_k', /Unknown field "top_k"/],
  ])('refuses %s', async (_, body, param, message) => {
    const { status, json } = await server.post('/v1/classify', body);
    expect([status, json.error.param]).toEqual([400, param]);
    expect(json.error.message).toMatch(message);
  });

  it('refuses another model', async () => {
    const { status, json } = await server.post('/v1/classify', { model: 'gpt-2', task: 'sst2', input: 'a' });
    expect([status, json.error.code]).toEqual([404, 'model_not_found']);
  });

  it('never answers null for a number that is not finite', async () => {
    server.engine.script = (run) =>
      run.finish({
        ...answerTo(run.request),
        kind: 'classify',
        data: [{ label: 'a', scores: { a: Number.NaN } }],
      });
    const { status, json } = await server.post('/v1/classify', { task: 'sst2', input: 'a' });
    expect([status, json.error.code]).toEqual([500, 'nonfinite_output']);
  });

  it('requires a tokenizer', async () => {
    server.engine.model = { ...MODEL, hasTokenizer: false };
    const { status, json } = await server.post('/v1/classify', { task: 'sst2', input: 'a' });
    expect(status).toBe(400);
    expect(json.error.message).toMatch(/no tokenizer/);
  });
});

describe('POST /v1/completions', () => {
  it("answers in OpenAI's shape", async () => {
    const { status, json } = await server.post('/v1/completions', { prompt: 'A fine' });
    expect(status).toBe(200);
    expect(json).toEqual({
      id: expect.stringMatching(/^cmpl-req_/),
      object: 'text_completion',
      created: expect.any(Number),
      model: 'switch-mini',
      choices: [{ index: 0, text: 'good', logprobs: null, finish_reason: 'length' }],
      usage: {
        prompt_tokens: 9,
        completion_tokens: 1,
        total_tokens: 10,
        prompt_tokens_details: { cached_tokens: 0 },
      },
    });
    expect(last).toEqual({
      kind: 'complete',
      explain: false,
      routing: { mode: null, k: null },
      prompts: ['A fine'],
      maxTokens: 16,
      stop: [],
      logprobs: null,
      stream: false,
      showTokenIds: false,
    });
  });

  it.each<[unknown, unknown]>([
    [[5, 6], [[5, 6]]],
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    [
      [[5, 6], 'b', [7]],
      [[5, 6], 'b', [7]],
    ],
    ['', ['']],
  ])('accepts the prompt %j', async (prompt, prompts) => {
    expect((await server.post('/v1/completions', { prompt })).status).toBe(200);
    expect(last).toMatchObject({ prompts });
  });

  it('samples tokens when a temperature is given, with the seed of the request or a random one', async () => {
    const body = { prompt: 'a', temperature: 0.7, top_p: 0.9, top_k: 40, min_p: 0.05, seed: -3, n: 2 };
    expect((await server.post('/v1/completions', body)).status).toBe(200);
    const { temperature, top_p: topP, top_k: topK, min_p: minP, seed } = body;
    expect(last).toMatchObject({ choices: 2, sampling: { temperature, topP, topK, minP, seed } });
    const drawn = async () => {
      await server.post('/v1/completions', { prompt: 'a', temperature: 1 });
      return (last as Extract<TaskJob, { kind: 'complete' }>).sampling!.seed;
    };
    const [first, second] = [await drawn(), await drawn()];
    expect([Number.isSafeInteger(first), first === second]).toEqual([true, false]);
  });

  it('gives token ids, log-probabilities and cost on request', async () => {
    const { json } = await server.post('/v1/completions', {
      prompt: 'a',
      return_token_ids: true,
      logprobs: 1,
      include: ['experts'],
    });
    expect(json.choices[0]).toMatchObject({
      token_ids: [7],
      logprobs: {
        tokens: [' good'],
        token_logprobs: [-0.5],
        top_logprobs: [{ ' good': -0.5 }],
        text_offset: [0],
      },
    });
    expect(json.experts.needed).toBe(5);
  });

  it("accepts OpenAI's other fields with values that change nothing", async () => {
    const body = {
      prompt: 'a',
      n: 1,
      best_of: 1,
      top_p: 1,
      echo: false,
      user: 'u',
      seed: 1,
      stop: 'x',
      temperature: 0,
      presence_penalty: 0,
      logit_bias: null,
    };
    expect((await server.post('/v1/completions', body)).status).toBe(200);
    expect(last).toMatchObject({ stop: ['x'] });
  });

  it.each<[string, object, string, number]>([
    ['no prompt', {}, 'prompt', 400],
    ['an empty list', { prompt: [] }, 'prompt', 400],
    ['33 prompts', { prompt: Array(33).fill('a') }, 'prompt', 400],
    ['a negative id', { prompt: [-1] }, 'prompt.0', 400],
    ['an id that is not an integer', { prompt: [7, 1.5] }, 'prompt.1', 400],
    ['a text among ids', { prompt: [[7], [7, 'a']] }, 'prompt.1.1', 400],
    ['an id outside the vocabulary', { prompt: [[1], [8000]] }, 'prompt.1', 400],
    ['more ids than a pass can hold', { prompt: Array(2049).fill(5) }, 'prompt', 400],
    ['a temperature above 2', { prompt: 'a', temperature: 2.1 }, 'temperature', 400],
    ['a top_p below 0', { prompt: 'a', top_p: -0.1 }, 'top_p', 400],
    ['a min_p above 1', { prompt: 'a', min_p: 1.5 }, 'min_p', 400],
    ['a fractional top_k', { prompt: 'a', top_k: 1.5 }, 'top_k', 400],
    ['a seed that is not an integer', { prompt: 'a', seed: 0.5 }, 'seed', 400],
    ['a repetition_penalty of 0', { prompt: 'a', repetition_penalty: 0 }, 'repetition_penalty', 400],
    ['a frequency_penalty below -2', { prompt: 'a', frequency_penalty: -3 }, 'frequency_penalty', 400],
    ['a bias of no token', { prompt: 'a', logit_bias: { 99999999: 1 } }, 'logit_bias', 400],
    ['17 choices', { prompt: 'a', n: 17 }, 'n', 400],
    ['65 choices of all prompts', { prompt: Array(13).fill('a'), n: 5 }, 'n', 400],
    ['no tokens', { prompt: 'a', max_tokens: 0 }, 'max_tokens', 400],
    ['2^53 tokens', { prompt: 'a', max_tokens: 2 ** 53 }, 'max_tokens', 400],
    ['more tokens than the KV cache', { prompt: 'a', max_tokens: 3073 }, 'max_tokens', 400],
    ['five stops', { prompt: 'a', stop: ['1', '2', '3', '4', '5'] }, 'stop', 400],
    ['an empty stop', { prompt: 'a', stop: '' }, 'stop', 400],
    ['six log-probabilities', { prompt: 'a', logprobs: 6 }, 'logprobs', 400],
    [
      'log-probabilities that are too many together',
      { prompt: Array(4).fill('a'), n: 16, max_tokens: 3072, logprobs: 5 },
      'logprobs',
      422,
    ],
    ['stream as text', { prompt: 'a', stream: 'yes' }, 'stream', 400],
    ['skip_special_tokens as text', { prompt: 'a', skip_special_tokens: 'no' }, 'skip_special_tokens', 400],
    ['echo', { prompt: 'a', echo: true }, 'echo', 400],
  ])('refuses %s', async (_, body, param, status) => {
    const { status: found, json } = await server.post('/v1/completions', body);
    expect([found, json.error.param]).toEqual([status, param]);
  });

  it('passes on whether special tokens are shown', async () => {
    for (const skip of [true, null, undefined, false]) {
      const shown: unknown[] = [];
      const { script } = server.engine;
      server.engine.script = (run) => {
        shown.push((run.request as { showSpecialTokens?: boolean }).showSpecialTokens ?? false);
        script?.(run);
      };
      await server.post('/v1/completions', { prompt: 'a', skip_special_tokens: skip });
      server.engine.script = script;
      expect(shown).toEqual([skip === false]);
    }
  });

  it('serves only token ids without a tokenizer', async () => {
    server.engine.model = { ...MODEL, hasTokenizer: false };
    expect((await server.post('/v1/completions', { prompt: [5] })).status).toBe(200);
    expect((await server.post('/v1/completions', { prompt: 'a' })).json.error.message).toMatch(
      /no tokenizer/,
    );
    expect((await server.post('/v1/completions', { prompt: [5], stop: 'a' })).status).toBe(400);
  });
});

it('names fields without effect in a header, and refuses unknown ones with --strict', async () => {
  const strict = await TestServer.start({ strict: 'on' });
  const body = { prompt: 'a', user: 'u', dream: 1, absent: null, 'no\nname': 2 };
  const answer = await server.post('/v1/completions', body);
  expect([answer.status, answer.headers['x-ignored-fields']]).toEqual([200, 'user, dream']);
  expect((await server.post('/v1/completions', { prompt: 'a' })).headers['x-ignored-fields']).toBeUndefined();
  const refused = await strict.post('/v1/completions', { prompt: 'a', dream: 1 });
  expect([refused.status, refused.json.error.param]).toEqual([400, 'dream']);
  const known = await strict.post('/v1/completions', { prompt: 'a', user: 'u' });
  expect([known.status, known.headers['x-ignored-fields']]).toEqual([200, 'user']);
  await strict.close();
});

it('says what it ignores in a whole answer, too', async () => {
  const answer = await server.post('/v1/completions', { prompt: 'a', user: 'u' });
  expect(answer.json.warnings).toEqual(['The field "user" has no effect']);
  expect((await server.post('/v1/completions', { prompt: 'a' })).json.warnings).toBeUndefined();
});

it.each<[Record<string, unknown>, string, RegExp]>([
  [{ guided_regex: '[0-9]+' }, 'guided_regex', /would change the answer: use "response_format"/],
  [{ guided_json: {} }, 'guided_json', /response_format/],
  [{ structured_outputs: { choice: ['a'] } }, 'structured_outputs', /response_format/],
  [{ grammar: 'root ::= "a"' }, 'grammar', /response_format/],
  [{ stop_token_ids: [3] }, 'stop_token_ids', /leave it out/],
  [{ min_tokens: 2 }, 'min_tokens', /leave it out/],
  [{ temprature: 0.5 }, 'temprature', /did you mean "temperature"/],
  [{ respons_format: {} }, 'respons_format', /did you mean "response_format"/],
])('refuses unknown fields that would have changed the answer: %j', async (fields, param, message) => {
  const { status, json } = await server.post('/v1/completions', { prompt: 'a', ...fields });
  expect([status, json.error?.param]).toEqual([400, param]);
  expect(json.error.message).toMatch(message);
});

it('takes such fields where they change nothing', async () => {
  const nothing = { guided_regex: null, ignore_eos: false, min_tokens: 0, stop_token_ids: [], grammar: '' };
  expect((await server.post('/v1/completions', { prompt: 'a', ...nothing })).status).toBe(200);
});

it('takes fields of other servers that only resemble its own', async () => {
  const others = { typ_p: 1, models: ['a'], mode: 'instruct' };
  expect((await server.post('/v1/completions', { prompt: 'a', ...others })).status).toBe(200);
});

it('compares only the first unknown names with known ones', async () => {
  const others = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`other_field_${i}`, 1]));
  const body = { prompt: 'a', ...others, temprature: 1 };
  expect((await server.post('/v1/completions', body)).status).toBe(200);
  const binding = await server.post('/v1/completions', { ...body, guided_regex: 'a' });
  expect([binding.status, binding.json.error.param]).toEqual([400, 'guided_regex']);
});

it('takes null for the model', async () => {
  expect((await server.post('/v1/completions', { prompt: 'a', model: null })).status).toBe(200);
});

it.each([
  ['/v1/models/', 200],
  ['/health/', 200],
  ['/health', 200],
])('answers %s', async (path, status) => {
  expect((await server.ask(path)).status).toBe(status);
});

it('tells its version', async () => {
  expect((await server.ask('/version')).json).toEqual({ version: VERSION });
});

it.each([
  ['/v1/chat/completion', '/v1/chat/completions'],
  ['/v1/model', '/v1/models'],
  ['/heath', '/health'],
])('names the nearest route for %s', async (path, meant) => {
  const { status, json } = await server.ask(path);
  expect([status, json.error.message]).toEqual([404, `There is no such route; did you mean ${meant}?`]);
});

it.each([
  [3, 'ask for 3 choices with "n"'],
  [1, 'which is 2, but got 1'],
])('says how "best_of" of %i is meant', async (bestOf, why) => {
  const { json } = await server.post('/v1/completions', { prompt: 'a', n: 2, best_of: bestOf });
  expect(json.error.message).toContain(why);
  expect(json.error.message).not.toContain('1 choices');
});

describe('POST /v1/completions with the prompt echoed', () => {
  it.each<[Record<string, unknown>, string]>([
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ n: 2, best_of: 1 }, 'best_of'],
    [{ best_of: 3 }, 'best_of'],
    // This model has an encoder.
    [{ echo: true }, 'echo'],
    [{ suffix: 'a' }, 'suffix'],
  ])('refuses %j', async (fields, param) => {
    const { status, json } = await server.post('/v1/completions', { prompt: 'a', ...fields });
    expect([status, json.error?.param]).toEqual([400, param]);
  });
});

describe('POST /v1/detokenize', () => {
  it('gives a text for each list of ids', async () => {
    const { json } = await server.post('/v1/detokenize', { ids: [[5, 1], [6]] });
    expect(json).toEqual({
      object: 'detokenization',
      model: 'switch-mini',
      data: [
        { index: 0, text: '5 1' },
        { index: 1, text: '6' },
      ],
    });
    expect((await server.post('/v1/detokenize', { ids: [7] })).json.data).toEqual([{ index: 0, text: '7' }]);
  });

  it.each<[string, unknown, string]>([
    ['an id outside of the vocabulary', [[5], [8000]], 'ids.1'],
    ['a text', 'a', 'ids'],
    ['too many ids', Array(65_537).fill(5), 'ids'],
  ])('refuses %s', async (_, ids, param) => {
    const { status, json } = await server.post('/v1/detokenize', { ids });
    expect([status >= 400 && status < 500, json.error.param]).toEqual([true, param]);
  });
});

describe('POST /v1/embeddings', () => {
  it('has the shape of OpenAI, with numbers or their bytes', async () => {
    const unit = [0.5, -1].map((value) => Math.fround(value / Math.hypot(0.5, -1)));
    const { json } = await server.post('/v1/embeddings', { input: ['a', 'b'] });
    expect(json).toEqual({
      object: 'list',
      model: 'switch-mini',
      data: [0, 1].map((index) => ({ object: 'embedding', index, embedding: unit })),
      usage: { prompt_tokens: 9, total_tokens: 9 },
    });
    const bytes = await server.post('/v1/embeddings', { input: [5, 6], encoding_format: 'base64' });
    const found = Buffer.from(bytes.json.data[0].embedding, 'base64');
    expect([found.readFloatLE(0), found.readFloatLE(4)]).toEqual(unit);
  });

  it.each<[string, object, string]>([
    ['no input', {}, 'input'],
    ['an empty list', { input: [] }, 'input'],
    ['another width', { input: 'a', dimensions: 64 }, 'dimensions'],
  ])('refuses %s', async (_, body, param) => {
    const { status, json } = await server.post('/v1/embeddings', body);
    expect([status, json.error.param]).toEqual([400, param]);
  });
});

describe('POST /v1/tokenize', () => {
  it('answers ids and tokens', async () => {
    const { json } = await server.post('/v1/tokenize', { input: ['a', 'b'], add_special_tokens: false });
    expect(json).toEqual({
      object: 'tokenization',
      model: 'switch-mini',
      data: [
        { index: 0, ids: [5, 1], tokens: ['a', '</s>'] },
        { index: 1, ids: [5, 1], tokens: ['b', '</s>'] },
      ],
      usage: { prompt_tokens: 9 },
    });
    expect(last).toEqual({ kind: 'tokenize', inputs: ['a', 'b'], addSpecialTokens: false });
  });
});

describe('models', () => {
  it('lists the served model', async () => {
    const { json } = await server.ask('/v1/models');
    expect(json.object).toBe('list');
    expect(json.data).toEqual([(await server.ask('/v1/models/switch-mini')).json]);
    for (const name of ['org/name', 'org%2Fname']) {
      const { json: other } = await server.ask(`/v1/models/${name}`);
      expect(other.error.message).toContain('The model "org/name" is not served here');
    }
    expect(json.data[0]).toMatchObject({
      id: 'switch-mini',
      object: 'model',
      owned_by: 'sida',
      tasks: MODEL.tasks,
    });
  });

  it('lists no model before it is open', async () => {
    server.engine.model = undefined;
    expect((await server.ask('/v1/models')).json.data).toEqual([]);
  });
});

describe('readiness', () => {
  it.each(['starting', 'converting', 'loading', 'restarting', 'failed'] as const)(
    'is 503 while %s',
    async (phase) => {
      server.engine.state = {
        phase,
        detail: '/secret/path',
        progress: { phase: 'convert', done: 3, total: 8 },
      };
      const { status, json, text, headers } = await server.ask('/health/ready');
      expect(status).toBe(503);
      expect(json).toEqual({
        status: 'not_ready',
        phase,
        reason: expect.any(String),
        progress: { phase: 'convert', done: 3, total: 8 },
      });
      expect(text).not.toContain('secret');
      expect(headers['retry-after']).toBeTruthy();
      expect((await server.ask('/health/live')).json).toEqual({ status: 'alive' });
    },
  );

  it('is 200 when the engine accepts jobs', async () => {
    const { status, json } = await server.ask('/health/ready');
    expect([status, json.status]).toEqual([200, 'ready']);
  });

  it('refuses requests until the model is known', async () => {
    server.engine.model = undefined;
    server.engine.state = { phase: 'loading', detail: '' };
    const { status, json, headers } = await server.post('/v1/classify', { task: 'sst2', input: 'a' });
    expect([status, json.error.code]).toEqual([503, 'not_ready']);
    expect(headers['retry-after']).toBeTruthy();
  });
});

describe('admin', () => {
  it('reports and changes budgets', async () => {
    server.engine.onControl = ({ kind }) => ({ kind: kind as 'usage', usage: MODEL.usage, split: SPLIT });
    const answer = {
      device: {
        budget_bytes: 2 ** 30,
        used_bytes: 1000,
        peak_bytes: 2000,
        smallest_bytes: 500,
        driver_bytes: 70,
        dense_bytes: 300,
        workspace_bytes: 200,
        kv: { used_bytes: 30, cached_bytes: 20, free_bytes: 50 },
        experts: { slot_bytes: 400, resident_bytes: 350, all_bytes: 800, token_bytes: 200 },
      },
      disk_bytes_per_second: 0,
      host: { budget_bytes: 0, used_bytes: 0 },
    };
    expect((await server.ask('/admin/budget')).json).toEqual(answer);
    expect((await server.ask('/admin/budget', { method: 'PUT', body: { device: '1GiB' } })).json).toEqual(
      answer,
    );
    expect(server.engine.controls.at(-1)).toEqual({ kind: 'set-budget', device: '1GiB' });
    await server.ask('/admin/budget', { method: 'PUT', body: { device: 2 ** 30 } });
    expect(server.engine.controls.at(-1)).toEqual({ kind: 'set-budget', device: String(2 ** 30) });
  });

  it('reports expert peers', async () => {
    const peer = {
      ...{ address: '10.0.0.6:7500', held: 96, requests: 5, experts: 7, failures: 1, waitNs: 3 },
      ...{ sentBytes: 100, receivedBytes: 200, roundTripSeconds: 0.00005, bytesPerSecond: 1e9 },
    };
    const peers = [
      { ...peer, connected: true, error: '' },
      { ...peer, address: '[::1]:7500', connected: false, error: 'it has ended' },
    ];
    server.engine.onControl = () => ({ kind: 'usage', usage: { ...MODEL.usage, peers }, split: SPLIT });
    const counts = {
      ...{ held: 96, experts: 7, failures: 1, sent_bytes: 100, received_bytes: 200 },
      ...{ round_trip_ms: 0.05, bytes_per_second: 1e9 },
    };
    expect((await server.ask('/admin/budget')).json.peers).toEqual([
      { address: '10.0.0.6:7500', connected: true, error: null, ...counts },
      { address: '[::1]:7500', connected: false, error: 'it has ended', ...counts },
    ]);
  });

  it('refuses a budget below the smallest with the bytes needed', async () => {
    server.engine.onControl = () => {
      throw new SidaError({
        code: 'budget_too_small',
        message: '500 bytes are needed',
        details: { needed_bytes: 500 },
      });
    };
    const { status, json } = await server.ask('/admin/budget', { method: 'PUT', body: { device: '1' } });
    expect(status).toBe(422);
    expect(json.error).toMatchObject({
      code: 'budget_too_small',
      message: '500 bytes are needed',
      details: { needed_bytes: 500 },
    });
  });

  it.each([
    {},
    { device: 0 },
    { device: -5 },
    { device: 1.5 },
    { device: null },
    { device: '0' },
    { device: '101%' },
    { device: '1GiB', host: '1' },
  ])('refuses %j', async (body) => {
    const { status, json } = await server.ask('/admin/budget', { method: 'PUT', body });
    expect([status, json.error.message]).toEqual([400, expect.not.stringMatching(/invalid input/i)]);
  });

  it('reports the residency of the experts', async () => {
    const layers = [
      { layer: 'encoder.1', experts: [{ index: 0, state: 'resident' as const, pinned: false, uses: 12 }] },
    ];
    server.engine.onControl = () => ({ kind: 'experts', layers });
    expect((await server.ask('/admin/experts')).json).toEqual({ layers });
  });

  it('reports what names experts ahead', async () => {
    const asked = async (needed: boolean, routeAhead: number) => {
      server.engine.onControl = () => ({ kind: 'predictor', enabled: true, needed, routeAhead });
      return (await server.ask('/admin/predictor')).json;
    };
    expect(await asked(true, 0)).toEqual({
      enabled: true,
      function: null,
      state: 'off',
      route_ahead: 'off',
      passes: null,
    });
    server.engine.model = { ...MODEL, predictor: { ...MODEL.predictor, name: 'lstm' } };
    expect(await asked(true, 0)).toMatchObject({ function: 'lstm', state: 'active', route_ahead: 'off' });
    server.engine.counters = { passSeconds: 8, stallSeconds: 2 } as EngineCounters;
    expect(await asked(false, 2)).toEqual({
      enabled: true,
      function: 'lstm',
      state: 'not_needed',
      route_ahead: 'not_needed',
      passes: { compute_seconds: 6, stall_seconds: 2, most_speedup: 8 / 6 },
    });
    server.engine.counters = undefined;
  });

  it('switches prediction off and on', async () => {
    const asked: ControlRequest[] = [];
    server.engine.onControl = (request) => {
      asked.push(request);
      const enabled = request.kind === 'predictor' && request.set?.enabled !== false;
      return { kind: 'predictor', enabled, needed: true, routeAhead: 2 };
    };
    const put = async (body: object) => server.ask('/admin/predictor', { method: 'PUT', body });
    const off = (await put({ enabled: false, seconds: 60 })).json;
    expect(off).toMatchObject({ enabled: false, state: 'off', route_ahead: 'off' });
    expect((await put({ enabled: true })).json).toMatchObject({ enabled: true, route_ahead: 'active' });
    expect(asked).toMatchObject([
      { kind: 'predictor', set: { enabled: false, seconds: 60 } },
      { kind: 'predictor', set: { enabled: true } },
    ]);
    for (const body of [{}, { enabled: 1 }, { enabled: false, seconds: 0 }])
      expect((await put(body)).status).toBe(400);
    expect(asked.length).toBe(2);
  });

  it('is 503 while the engine restarts', async () => {
    server.engine.state = { phase: 'restarting', detail: '' };
    expect((await server.ask('/admin/experts')).status).toBe(503);
  });
});

describe('metrics', () => {
  it('has help for every name, all beginning with sida_', async () => {
    const { text, headers } = await server.ask('/metrics');
    expect(headers['content-type']).toMatch(/^text\/plain/);
    const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1]!);
    expect(names.length).toBeGreaterThan(40);
    for (const name of names) {
      expect(name).toMatch(/^sida_/);
      expect(text).toMatch(new RegExp(`^# HELP ${name} .{5,}`, 'm'));
    }
  });

  it('labels requests only with routes of the table', async () => {
    await server.ask('/made/up/path');
    await server.ask('/v1/models/made-up');
    const { text } = await server.ask('/metrics');
    expect(text).toMatch(/sida_http_requests_total\{route="unmatched",method="GET",status="404"\} \d/);
    expect(text).toMatch(
      /sida_http_requests_total\{route="\/v1\/models\/:id",method="GET",status="404"\} \d/,
    );
    expect(text).not.toContain('made');
    expect(text).toMatch(/sida_queue_jobs_total\{outcome="completed"\} [1-9]/);
    expect(text).toMatch(/sida_job_inference_seconds_count\{kind="classify"\} [1-9]/);
  });
});

it('a seed beyond 64 bits is refused with the bounds of seeds', async () => {
  const { status, json } = await server.post('/v1/completions', { prompt: 'a', seed: 2 ** 65 });
  expect(status).toBe(400);
  expect(json.error.message).toContain('from -9223372036854775808 to 18446744073709551615');
});

describe('openapi.json', () => {
  it('describes every route, with schemas that resolve', async () => {
    const { json, text } = await server.ask('/openapi.json');
    expect(json.openapi).toBe('3.1.0');
    for (const { path, method } of ROUTES) {
      const operation = json.paths[path.replace(/:(\w+)/, '{$1}')]?.[method];
      expect(operation?.summary, path).toBeTruthy();
      expect(operation.responses.default).toBeDefined();
      const names = [...path.matchAll(/:(\w+)/g)].map((match) => match[1]!);
      const inPath = (operation.parameters ?? []).filter((each: { in: string }) => each.in === 'path');
      expect(inPath, path).toMatchObject(names.map((name) => ({ name, required: true })));
    }
    const operations = ROUTES.map(({ path, method }) => {
      const { operationId, tags } = json.paths[path.replace(/:(\w+)/, '{$1}')][method];
      expect(operationId).toMatch(/^[a-z]+[A-Z]\w+$/);
      expect(tags).toHaveLength(1);
      return operationId;
    });
    expect(new Set(operations).size).toBe(ROUTES.length);
    const references = new Set(
      [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map((match) => match[1]!),
    );
    expect(references.size).toBeGreaterThan(8);
    for (const name of references) expect(json.components.schemas[name], name).toBeDefined();
    expect(json.components.schemas.CompletionRequest.properties.prompt).toBeDefined();
    expect(json.paths['/v1/jobs'].post.parameters).toMatchObject([
      { in: 'header', name: 'idempotency-key', required: false },
    ]);
    expect(json.components.schemas.ClassifyJob.required).toEqual(['input', 'type']);
    expect(json.components.schemas.ClassifyRequest.required).toEqual(['input']);
  });

  it('gives an example of every body', async () => {
    const { json } = await server.ask('/openapi.json');
    const whole = (schema: object): string =>
      JSON.stringify(schema, (key, value) =>
        key === '$ref' ? json.components.schemas[value.split('/').at(-1)] : value,
      );
    const bodies = ROUTES.flatMap(({ path, method }) => {
      const { requestBody } = json.paths[path.replace(/:(\w+)/, '{$1}')][method];
      return requestBody === undefined ? [] : [[path, whole(requestBody)] as const];
    });
    expect(bodies.length).toBeGreaterThan(15);
    expect(bodies.filter(([, text]) => !text.includes('"example')).map(([path]) => path)).toEqual([]);
  });
});

describe('the pages', () => {
  it.each(['/', '/docs'])('of %s load what their content security policy allows', async (path) => {
    const { text, headers } = await server.ask(path);
    expect(headers['content-type']).toMatch(/^text\/html/);
    expect(headers['content-security-policy']).toMatch(/default-src 'none'.*script-src 'self'/);
    expect(headers['content-security-policy']).not.toContain('unsafe-');
    expect(text).not.toMatch(/<script>|<style>|style=|onclick|https?:\/\//);
    const loaded = [...text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, url]) => url!);
    expect(loaded.length).toBeGreaterThan(1);
    for (const url of loaded) {
      const { status, headers: own } = await server.ask(url);
      expect([url, status]).toEqual([url, 200]);
      expect(own['content-type']).toMatch(url.endsWith('.css') ? /css/ : /javascript/);
    }
  });
});

describe('events of the experts', () => {
  const counters = (passes: number) => ({ passes, usage: MODEL.usage }) as unknown as EngineCounters;

  it('begin with every expert, and go on with those that changed', async () => {
    let uses = 0;
    const { engine } = server;
    engine.counters = counters(1);
    engine.onControl = ({ kind }) => {
      if (kind === 'usage') return { kind, usage: MODEL.usage, split: SPLIT };
      const at = (index: number, own: number, state: 'resident' | 'absent') => ({
        index,
        state,
        pinned: false,
        uses: own,
      });
      return {
        kind: 'experts',
        layers: [{ layer: 'decoder.1', experts: [at(0, uses, 'resident'), at(1, 0, 'absent')] }],
      };
    };
    const stop = new AbortController();
    const answer = await fetch(`${server.running.url}/admin/experts/events`, { signal: stop.signal });
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    const next = async () => JSON.parse((await reader.read()).value!.replace(/^data: /, ''));
    expect(await next()).toMatchObject({
      layers: ['decoder.1'],
      experts: [
        [0, 0, 'resident', 0],
        [0, 1, 'absent', 0],
      ],
      memory: { dense_bytes: 300, experts: { slot_bytes: 400, all_bytes: 800, token_bytes: 200 } },
      totals: { passes: 1 },
    });
    uses = 3;
    engine.counters = counters(2);
    const second = await next();
    expect(second).toMatchObject({ experts: [[0, 0, 'resident', 3]], totals: { passes: 2 } });
    expect(second).not.toHaveProperty('layers');
    // Nothing is asked of an engine that stands still.
    const asked = engine.controls.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(engine.controls.length).toBe(asked);
    stop.abort();
    await expect
      .poll(() => server.log.some(({ path, status }) => path === '/admin/experts/events' && status === 499))
      .toBe(true);
  });

  it('tell at once when an expert peer is gone', async () => {
    const peer = {
      ...{ address: '10.0.0.6:7500', held: 96, requests: 0, experts: 0, failures: 0, waitNs: 0 },
      ...{ sentBytes: 0, receivedBytes: 0, roundTripSeconds: 0, bytesPerSecond: 0 },
    };
    let usage = { ...MODEL.usage, peers: [{ ...peer, connected: true, error: '' }] };
    const { engine } = server;
    engine.counters = { ...counters(1), usage };
    engine.onControl = ({ kind }) =>
      kind === 'experts' ? { kind, layers: [] } : { kind: 'usage', usage, split: SPLIT };
    const stop = new AbortController();
    const answer = await fetch(`${server.running.url}/admin/experts/events`, { signal: stop.signal });
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    const next = async () => JSON.parse((await reader.read()).value!.replace(/^data: /, ''));
    expect((await next()).peers).toMatchObject([{ connected: true, error: null }]);
    usage = { ...usage, peers: [{ ...peer, connected: false, error: 'it has ended' }] };
    engine.counters = { ...counters(1), usage };
    expect((await next()).peers).toMatchObject([{ connected: false, error: 'it has ended' }]);
    stop.abort();
  });

  it('list the requests in flight, which an operator cancels', async () => {
    const { engine } = server;
    engine.script = undefined;
    engine.onControl = ({ kind }) =>
      kind === 'experts' ? { kind, layers: [] } : { kind: 'usage', usage: MODEL.usage, split: SPLIT };
    const look = async () => {
      const stop = new AbortController();
      const answer = await fetch(`${server.running.url}/admin/experts/events`, { signal: stop.signal });
      const { value } = await answer.body!.pipeThrough(new TextDecoderStream()).getReader().read();
      stop.abort();
      return JSON.parse(value!.replace(/^data: /, ''));
    };
    const completion = { prompt: 'a b', max_tokens: 7 };
    const whole = server.post('/v1/completions', completion, { 'x-request-id': 'whole' });
    const streamed = server.post(
      '/v1/completions',
      { ...completion, stream: true },
      { 'x-request-id': 'streamed' },
    );
    await expect.poll(() => engine.runs.length).toBe(2);
    const piece = { index: 0, text: 'x', tokenIds: [1, 2], logprobs: null, finishReason: null };
    engine.runs.find(({ request }) => (request as { stream?: boolean }).stream)!.options.onDelta!(piece);
    const { requests } = await look();
    expect(requests).toMatchObject([
      { id: 'whole', kind: 'complete', key: null, tokens: null },
      { id: 'streamed', kind: 'complete', key: null, tokens: 2 },
    ]);
    expect(requests[0].most_tokens).toBeGreaterThan(7);
    for (const id of ['whole', 'streamed'])
      expect((await server.ask(`/admin/requests/${id}`, { method: 'DELETE' })).status).toBe(200);
    const why = 'An operator cancelled the request';
    expect(await whole).toMatchObject({ status: 499, json: { error: { code: 'cancelled', message: why } } });
    expect((await streamed).text).toContain(why);
    expect((await look()).requests).toEqual([]);
    const again = await server.ask('/admin/requests/whole', { method: 'DELETE' });
    expect([again.status, again.json.error.code]).toEqual([404, 'not_found']);
  });

  it('tell who changed the budget', async () => {
    let usage = MODEL.usage;
    server.engine.onControl = (request) => {
      if (request.kind === 'experts') return { kind: 'experts', layers: [] };
      if (request.kind === 'set-budget') usage = { ...usage, budgetBytes: Number(request.device) };
      return { kind: request.kind as 'usage', usage, split: SPLIT };
    };
    const put = (device: string, headers = {}) =>
      server.ask('/admin/budget', { method: 'PUT', body: { device }, headers });
    await put('1000');
    await put('2000');
    await put('900', { 'sec-fetch-site': 'same-origin' });
    const stop = new AbortController();
    const answer = await fetch(`${server.running.url}/admin/experts/events`, { signal: stop.signal });
    const { value } = await answer.body!.pipeThrough(new TextDecoderStream()).getReader().read();
    stop.abort();
    expect(JSON.parse(value!.replace(/^data: /, '')).budget_changes.slice(-2)).toMatchObject([
      { from_bytes: 1000, to_bytes: 2000, by: 'api', key: null },
      { from_bytes: 2000, to_bytes: 900, by: 'page', key: null },
    ]);
  });

  it('are an error where the engine cannot be asked', async () => {
    server.engine.enter('restarting');
    const { status } = await server.ask('/admin/experts/events');
    expect(status).toBe(503);
  });
});
