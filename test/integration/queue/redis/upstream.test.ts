// A worker before the server of another engine, which here is another sida: the same answers by another road.
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { metricsIn, REPO, ServerProcess } from '../../../support/server-process.js';
import { WorkerProcess } from '../../../support/worker-process.js';

const MODEL = `${REPO}/models/olmoe-mini`;
const messages = [{ role: 'user' as const, content: 'What kind of thing is a violin?' }];
const CHAT = { model: 'olmoe-mini', messages, max_tokens: 24, temperature: 0 };

describeWithRedis('a worker before an engine of another program', () => {
  let redis: RedisServer;
  let upstream: ServerProcess;
  let front: ServerProcess;
  let worker: WorkerProcess;
  let [through, direct]: OpenAI[] = [];
  const workerFlags = (url: string, model = 'olmoe-mini') => [
    ...['--redis', redis.url, '--upstream', url, '--model', model, '--log-level', 'warn'],
    ...['--lock-duration', '2s', '--attempts', '20'],
  ];
  beforeAll(async () => {
    redis = await RedisServer.start();
    upstream = await ServerProcess.start(['--model', MODEL, '--memory-budget', '50%', '--api-key', 'theirs']);
    process.env.SIDA_UPSTREAM_KEY = 'theirs';
    worker = await WorkerProcess.start(workerFlags(`${upstream.url}/v1`));
    front = await ServerProcess.start(['--redis', redis.url, '--no-worker', '--model', 'olmoe-mini']);
    const client = (url: string, apiKey: string) =>
      new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
    [through, direct] = [client(front.url, 'none'), client(upstream.url, 'theirs')];
  }, 120_000);
  afterAll(async () => {
    delete process.env.SIDA_UPSTREAM_KEY;
    await front?.stop();
    await worker?.stop();
    await upstream?.stop();
    await redis?.end();
  });

  it('answers chats as that engine does, whole and as a stream', async () => {
    const [ours, theirs] = await Promise.all([
      through!.chat.completions.create(CHAT),
      direct!.chat.completions.create(CHAT),
    ]);
    expect(ours.choices[0]!.message.content).toMatch(/\w/);
    expect(ours.choices.map(({ message, finish_reason }) => [message.content, finish_reason])).toEqual(
      theirs.choices.map(({ message, finish_reason }) => [message.content, finish_reason]),
    );
    expect(ours.usage).toMatchObject({
      prompt_tokens: theirs.usage!.prompt_tokens,
      completion_tokens: theirs.usage!.completion_tokens,
    });
    let text = '';
    let pieces = 0;
    for await (const chunk of await through!.chat.completions.create({ ...CHAT, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
      pieces += 1;
    }
    expect(text).toBe(theirs.choices[0]!.message.content);
    expect(pieces).toBeGreaterThan(4);
  });

  it('passes on sampling with a seed, several choices, completions and responses', async () => {
    const hello = [{ role: 'user' as const, content: 'Hello' }];
    const sampled = { ...CHAT, messages: hello, temperature: 2, seed: 7, n: 3 };
    const texts = async (client: OpenAI) =>
      (await client.chat.completions.create(sampled)).choices.map(({ message }) => message.content);
    const theirs = await texts(direct!);
    expect(new Set(theirs).size).toBeGreaterThan(1);
    expect(await texts(through!)).toEqual(theirs);
    const prompts = {
      model: 'olmoe-mini',
      prompt: ['A violin is', 'A cat is'],
      max_tokens: 8,
      temperature: 0,
    };
    const completed = async (client: OpenAI) =>
      (await client.completions.create(prompts)).choices.map(({ text, index }) => [index, text]);
    expect(await completed(through!)).toEqual(await completed(direct!));
    const asked = { model: 'olmoe-mini', input: 'What kind of thing is a cat?', temperature: 0 };
    const responded = async (client: OpenAI) => (await client.responses.create(asked)).output_text;
    expect(await responded(through!)).toBe(await responded(direct!));
  });

  it('holds answers to schemas', async () => {
    const schema = { type: 'object', properties: { kind: { enum: ['animal', 'tool'] } }, required: ['kind'] };
    const response_format = {
      type: 'json_schema' as const,
      json_schema: { name: 'x', schema, strict: true },
    };
    const { choices } = await through!.chat.completions.create({ ...CHAT, response_format });
    expect(['animal', 'tool']).toContain(JSON.parse(choices[0]!.message.content!).kind);
  });

  it('ends the work of that engine when the client leaves, and asks once for an idempotency key', async () => {
    const theirs = async (name: string) => {
      const headers = { authorization: 'Bearer theirs' };
      return metricsIn(await (await fetch(`${upstream.url}/metrics`, { headers })).text())(name);
    };
    const stream = await through!.chat.completions.create({ ...CHAT, n: 16, temperature: 1, stream: true });
    await stream[Symbol.asyncIterator]().next();
    stream.controller.abort();
    await front.until(async () => (await theirs('sida_queue_active_jobs')) === 0);
    expect(await theirs('sida_queue_jobs_total{outcome="cancelled"}')).toBe(1);
    const before = await theirs('sida_queue_accepted_total');
    const keep = () =>
      fetch(`${front.url}/v1/jobs`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'once' },
        body: JSON.stringify({ type: 'chat', ...CHAT }),
      }).then((response) => response.json() as Promise<{ id: string }>);
    const [one, two] = await Promise.all([keep(), keep()]);
    expect(two.id).toBe(one.id);
    await front.until(async () => (await front.get(`/v1/jobs/${one.id}`)).body.status === 'completed');
    expect(await theirs('sida_queue_accepted_total')).toBe(before + 1);
  });

  it('refuses what needs the model itself, and the refusals of that engine arrive', async () => {
    const ask = async (path: string, body: object) => {
      const { status, body: answer } = await front.post(path, body);
      return [status, answer.error?.code, answer.error?.param];
    };
    const completion = { prompt: 'a', max_tokens: 2 };
    expect(await ask('/v1/completions', { ...completion, logprobs: 2 })).toEqual([
      422,
      'cannot_run',
      'logprobs',
    ]);
    expect(await ask('/v1/completions', { ...completion, prompt: [1, 2] })).toEqual([
      422,
      'cannot_run',
      'prompt',
    ]);
    expect(await ask('/v1/chat/completions', { messages, logprobs: true })).toEqual([
      422,
      'cannot_run',
      'logprobs',
    ]);
    const classify = await ask('/v1/classify', { template: '{text}', labels: ['a', 'b'], input: 'c' });
    expect(classify.slice(0, 2)).toEqual([422, 'cannot_run']);
    const long = { role: 'user', content: 'violin '.repeat(6_000) };
    const { status, body } = await front.post('/v1/chat/completions', { ...CHAT, messages: [long] });
    expect([status, body.error.message]).toEqual([
      400,
      expect.stringMatching(/upstream engine refused.*length/),
    ]);
  });

  it('waits for an engine that went away, and runs the jobs again that it had', async () => {
    const before = await through!.chat.completions.create(CHAT);
    // The job cannot end before the engine goes.
    for (const pid of upstream.enginePids()) process.kill(pid, 'SIGSTOP');
    const { body: kept } = await front.post('/v1/jobs', { type: 'chat', ...CHAT });
    await front.until(async () => (await front.get(`/v1/jobs/${kept.id}`)).body.status === 'running');
    const { port } = upstream;
    const engines = upstream.enginePids();
    await upstream.kill();
    for (const pid of engines) process.kill(pid, 'SIGKILL');
    const flags = ['--model', MODEL, '--memory-budget', '50%', '--api-key', 'theirs'];
    upstream = await ServerProcess.launch(flags, [], port);
    await front.until(async () => (await front.get(`/v1/jobs/${kept.id}`)).body.finished_ms !== null);
    const { body } = await front.get(`/v1/jobs/${kept.id}`);
    expect([body.status, body.answer?.choices[0].message.content]).toEqual([
      'completed',
      before.choices[0]!.message.content,
    ]);
  }, 90_000);

  it('is refused with the names that the engine has', async () => {
    const other = new WorkerProcess(workerFlags(upstream.url, 'another'));
    expect(await other.exit).toBe(1);
    expect(other.output).toMatch(/upstream engine has no model "another"; it has olmoe-mini/);
  });
});
