// Predicted routing over HTTP: tables send tokens to experts, per server or per request, the same at every budget.
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePredictor, type PredictorFiles } from '../../support/predictor-files.js';
import { MINI, ServerProcess, sst2 } from '../../support/server-process.js';

const sentences = sst2().slice(0, 48);
const prompts = sentences.slice(0, 5).map(({ text }) => `sst2 sentence: ${text}`);
const SERVER = ['--model', MINI, '--max-batch-tokens', '256'];
let files: PredictorFiles;

beforeAll(() => {
  files = makePredictor(sentences);
});
afterAll(() => files.remove());

type Routing = { routing?: 'exact' | 'predicted'; routing_k?: number };

async function answersOf(server: ServerProcess, routing: Routing) {
  const labels = sentences.map(async ({ text }) => {
    const { status, body } = await server.post('/v1/classify', { task: 'sst2', input: text, ...routing });
    expect(status, JSON.stringify(body)).toBe(200);
    return body.data[0].scores as object;
  });
  const tokens = prompts.map(async (prompt) => {
    const request = { prompt, max_tokens: 10, return_token_ids: true, ...routing };
    const { status, body } = await server.post('/v1/completions', request);
    expect(status, JSON.stringify(body)).toBe(200);
    return body.choices[0].token_ids as number[];
  });
  const beams = prompts.slice(0, 2).map(async (prompt) => {
    const request = { prompt, max_tokens: 6, num_beams: 3, n: 3, return_token_ids: true, ...routing };
    const { status, body } = await server.post('/v1/completions', request);
    expect(status, JSON.stringify(body)).toBe(200);
    return (body.choices as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
  });
  return {
    labels: await Promise.all(labels),
    tokens: await Promise.all(tokens),
    beams: await Promise.all(beams),
  };
}

const ask = (server: ServerProcess, routing: object) =>
  server.post('/v1/classify', { task: 'sst2', input: sentences[0]!.text, ...routing });

describe('a server with --routing predicted', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    const routing = ['--routing', 'predicted', '--routing-k', '3'];
    server = await ServerProcess.start([...SERVER, '--predictor', files.predictor, ...routing]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('predicts every expert, so that none is fetched on demand', async () => {
    for (const routing_k of [3, 1]) {
      const { experts } = (await ask(server, { routing_k, include: ['experts'] })).body;
      expect(experts.needed).toBe(experts.resident + experts.prefetched + experts.late);
    }
    const request = { prompt: prompts[0], max_tokens: 3, include: ['experts'] };
    expect((await server.post('/v1/completions', request)).body.experts).toMatchObject({ on_demand: 0 });
  });

  it('gives the same bits for each k at every budget, beside other requests and alone', async () => {
    const { device } = (await server.get('/admin/budget')).body;
    const first = { 1: await answersOf(server, { routing_k: 1 }), 3: await answersOf(server, {}) };
    expect(first[1].labels).not.toEqual(first[3].labels);
    for (const budget of ['100%', '12.5%', String(device.smallest_bytes)]) {
      const { status } = await server.request('PUT', '/admin/budget', { device: budget });
      expect(status).toBe(200);
      const [one, three] = await Promise.all([
        answersOf(server, { routing: 'predicted', routing_k: 1 }),
        answersOf(server, { routing_k: 3 }),
      ]);
      expect(one, budget).toEqual(first[1]);
      expect(three, budget).toEqual(first[3]);
    }
    const alone = await ask(server, { routing_k: 1 });
    expect(alone.body.data[0].scores).toEqual(first[1].labels[0]);
  });

  it('refuses exact routing and a k above its --routing-k', async () => {
    const exact = await ask(server, { routing: 'exact' });
    expect([exact.status, exact.body.error.param]).toEqual([422, 'routing']);
    expect(exact.body.error.message).toMatch(/routers are not loaded/);
    const four = await ask(server, { routing_k: 4 });
    expect([four.status, four.body.error.param]).toEqual([422, 'routing_k']);
    expect(four.body.error.message).toMatch(/at most 3.*got 4/);
  });
});

describe('an exact server', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    const options = ['--predictor', files.predictor, '--routing-k', '2', '--memory-budget', '25%'];
    server = await ServerProcess.start([...SERVER, ...options]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('runs exact and predicted requests together with the same answers as alone', async () => {
    const exact = await answersOf(server, {});
    const predicted = await answersOf(server, { routing: 'predicted' });
    const single = await answersOf(server, { routing: 'predicted', routing_k: 1 });
    expect(predicted.labels).not.toEqual(exact.labels);
    expect(single.labels).not.toEqual(predicted.labels);
    const wishes: Routing[] = [{}, { routing: 'predicted' }, { routing: 'predicted', routing_k: 1 }];
    const together = await Promise.all(wishes.map((wish) => answersOf(server, wish)));
    expect(together).toEqual([exact, predicted, single]);
  });

  it('explains why it refuses a request', async () => {
    const three = await ask(server, { routing: 'predicted', routing_k: 3 });
    expect([three.status, three.body.error.message]).toEqual([422, expect.stringMatching(/at most 2/)]);
    const without = await ask(server, { routing_k: 1 });
    expect(without.status).toBe(422);
    expect(without.body.error.message).toMatch(/belongs to predicted routing/);
    for (const bad of [{ routing: 'both' }, { routing: 'predicted', routing_k: 0 }])
      expect((await ask(server, bad)).status).toBe(400);
  });
});

describe('predicted routing without a complete predictor', () => {
  it('is refused by a server without one, and keeps a --routing predicted server from becoming ready', async () => {
    const none = await ServerProcess.start([...SERVER, '--predictor', 'none']);
    const { status, body } = await ask(none, { routing: 'predicted' });
    expect([status, body.error.message]).toEqual([422, expect.stringMatching(/needs a predictor/)]);
    expect((await ask(none, {})).status).toBe(200);
    expect(await none.stop()).toBe(0);
    mkdirSync(join(files.root, 'nowhere'));
    const options = ['--routing', 'predicted', '--predictor', join(files.root, 'nowhere')];
    const failing = await ServerProcess.launch([...SERVER, ...options]);
    await failing.until(() => failing.output.includes('--routing predicted needs a predictor'));
    expect(failing.output).toMatch(/nowhere/);
    await failing.stop();
  });

  it('is refused if only the encoder has a network, and exact answers stay the same', async () => {
    const encoder = join(files.root, 'encoder-alone');
    cpSync(files.predictor, encoder, { recursive: true });
    rmSync(join(encoder, 'lstm', 'decoder'), { recursive: true });
    const server = await ServerProcess.start([...SERVER, '--predictor', encoder]);
    const exact = await ask(server, {});
    expect(exact.status).toBe(200);
    const predicted = await ask(server, { routing: 'predicted' });
    expect(predicted.status).toBe(422);
    expect(predicted.body.error.message).toMatch(/predict|decoder/);
    const completion = { prompt: prompts[0], max_tokens: 4, routing: 'predicted' };
    expect((await server.post('/v1/completions', completion)).status).toBe(422);
    const again = await Promise.all([
      ask(server, {}),
      ask(server, { routing: 'predicted' }),
      ask(server, {}),
    ]);
    expect(again.map(({ status }) => status)).toEqual([200, 422, 200]);
    expect(again[0]!.body.data).toEqual(exact.body.data);
    expect(server.output).toMatch(/no lstm network of the decoder/);
    expect(await server.stop()).toBe(0);
  });
});
