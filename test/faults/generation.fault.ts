// Generation at its limits: long prompts whose clients leave, streams that end anywhere while KV pages run out, chat
// templates without an end, grammars that take minutes, and stop strings beyond measure.
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { makeChatModel } from '../support/chat-model.js';
import { postText } from '../support/http-client.js';
import { randomFrom } from '../support/malformed-requests.js';
import { type Answer, metricsOf, ServerProcess } from '../support/server-process.js';
import { fault } from './fault.js';
import { dropAtPiece } from './raw-stream.js';

const PATH = '/v1/completions';
const LONG_PROMPT = 8_000;
const PASS_TOKENS = 1_000;
const DROPPED = 200;
const GENERATIONS = 32;
const TOKENS = 90;
/** Room for 12 of the generations. */
const KV_TOKENS = 12 * 128;

/** A schema whose grammar takes minutes to compile. */
const DEAR_FORMAT = {
  type: 'json_schema',
  json_schema: {
    name: 'dear',
    schema: {
      type: 'object',
      properties: Object.fromEntries(
        Array.from({ length: 150 }, (_, i) => [
          `p${i}`,
          { type: 'string', pattern: '^[^]*$', minLength: i, maxLength: 1000 - i },
        ]),
      ),
    },
  },
};

const random = randomFrom(50);
const removals: (() => void)[] = [];
afterAll(() => {
  for (const remove of removals) remove();
});

/** The chat model, with a context that is long enough. */
function makeModel(template?: string): string {
  const { model, remove } = makeChatModel();
  removals.push(remove);
  const file = join(model, 'config.json');
  const config = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify({ ...config, max_position_embeddings: 2 * LONG_PROMPT }));
  if (template !== undefined) writeFileSync(join(model, 'chat_template.jinja'), template);
  return model;
}

const start = (model: string, ...flags: string[]) => ServerProcess.start(['--model', model, ...flags]);
const portOf = (server: ServerProcess) => Number(new URL(server.url).port);
const metric = async (server: ServerProcess, name: string) => (await metricsOf(server))(name);
const promptOf = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * i * 7 + i) % 250));

/** Nothing runs or waits, and every KV page is free or of the prefix cache. */
async function nothingHeld(server: ServerProcess): Promise<void> {
  await server.until(async () => (await metric(server, 'sida_active_sequences')) === 0);
  const value = await metricsOf(server);
  expect(value('sida_queue_active_jobs')).toBe(0);
  expect(value('sida_queue_waiting_jobs')).toBe(0);
  expect(value('sida_waiting_sequences')).toBe(0);
  expect(value('sida_kv_pages_used')).toBe(0);
  expect(value('sida_kv_pages_free') + value('sida_kv_pages_cached')).toBe(value('sida_kv_pages'));
  expect(value('sida_engine_restarts_total')).toBe(0);
}

fault('a client leaves during the prefill of 8,000 tokens', async (report) => {
  // A pass of some seconds, which are those of loading experts, so that the server has heard of each before the next.
  const slow = ['--memory-budget', '1%', '--link-latency', '40ms', '--predictor', 'none'];
  const size = ['--max-batch-tokens', String(PASS_TOKENS), '--kv-tokens', '16384', '--prefix-cache', 'off'];
  const server = await start(makeModel(), ...slow, ...size);
  const request = postText(PATH, { prompt: promptOf(1, LONG_PROMPT), max_tokens: 1, stream: true });
  const passes = () => metric(server, 'sida_passes_total');
  const beyond: number[] = [];
  for (const run of [1, 3, 5]) {
    const before = await passes();
    const socket = connect({ host: '127.0.0.1', port: portOf(server) });
    socket.on('error', () => undefined).write(request);
    await server.until(async () => (await passes()) >= before + run);
    const left = await passes();
    socket.destroy();
    await nothingHeld(server);
    await delay(3_000);
    beyond.push((await passes()) - left);
  }
  expect(Math.max(...beyond)).toBeLessThan(LONG_PROMPT / PASS_TOKENS - 5);
  report.atMost('most passes after the client went away', Math.max(...beyond), 1, '');
  expect(await server.stop()).toBe(0);
});

fault('200 streams dropped at random tokens while KV pages run out', async (report) => {
  const model = makeModel();
  const requests = Array.from({ length: GENERATIONS }, (_, i) => ({
    prompt: promptOf(i, 20 + i),
    max_tokens: TOKENS,
    return_token_ids: true,
    ...(i % 2 === 1 && { temperature: 1.5, seed: i }),
  }));
  const tokensOf = ({ status, body }: Answer): number[] => {
    expect(status, JSON.stringify(body)).toBe(200);
    return body.choices[0].token_ids;
  };
  const roomy = await start(model, '--memory-budget', '100%', '--kv-tokens', '8192', '--prefix-cache', 'off');
  const alone: number[][] = [];
  for (const request of requests) alone.push(tokensOf(await roomy.post(PATH, request)));
  expect(await roomy.stop()).toBe(0);

  const server = await start(model, '--memory-budget', '1%', '--kv-tokens', String(KV_TOKENS));
  let left = DROPPED;
  const dropping = Array.from({ length: 20 }, async () => {
    while (left > 0) {
      left -= 1;
      const request = { ...requests[left % GENERATIONS]!, stream: true };
      await dropAtPiece(portOf(server), postText(PATH, request), 1 + Math.floor(random() * TOKENS));
    }
  });
  const kept = await Promise.all(requests.map((request) => server.post(PATH, request)));
  await Promise.all(dropping);
  expect(kept.map(tokensOf)).toEqual(alone);
  await nothingHeld(server);
  const preemptions = await metric(server, 'sida_preemptions_total');
  expect(preemptions).toBeGreaterThan(0);
  report.note(`${DROPPED} streams dropped, ${preemptions} times an input gave up its pages`);
  report.note(`${GENERATIONS} others with room for 12: the tokens of each alone; no page left in use`);
  expect(await server.stop()).toBe(0);
});

fault('chat templates without an end, dear grammars, and stop strings beyond measure', async (report) => {
  const endless = [
    '{% for i in range(1000000000) %}x{% endfor %}',
    '{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}',
    "{% set t = namespace(x='x') %}{% for i in range(100) %}{% set t.x = t.x + t.x %}{% endfor %}{{ t.x }}",
  ];
  const messages = [{ role: 'user', content: 'Hello' }];
  let slowest = 0;
  for (const template of endless) {
    const server = await start(makeModel(template), '--memory-budget', '100%');
    const good = () => server.post(PATH, { prompt: promptOf(1, 5), max_tokens: 4, return_token_ids: true });
    const { body: before } = await good();
    const begin = performance.now();
    const asked = Array.from({ length: 4 }, () => server.post('/v1/chat/completions', { messages }));
    const { body: beside } = await good();
    expect(beside.choices).toEqual(before.choices);
    for (const { status, body } of await Promise.all(asked)) {
      expect([status, body.error.message], template).toEqual([422, expect.stringContaining('template')]);
    }
    slowest = Math.max(slowest, performance.now() - begin);
    await nothingHeld(server);
    expect(await server.stop()).toBe(0);
  }
  report.note(`${endless.length} templates, four requests each: refused within ${Math.round(slowest)} ms`);

  const server = await start(makeModel(), '--memory-budget', '100%');
  const begin = performance.now();
  const asked = Array.from({ length: 4 }, () =>
    server.post('/v1/chat/completions', { messages, response_format: DEAR_FORMAT }),
  );
  const beside = server.post(PATH, { prompt: promptOf(1, 5), max_tokens: 4 });
  expect((await beside).status).toBe(200);
  const besideMs = performance.now() - begin;
  for (const { status, body } of await Promise.all(asked)) {
    expect([status, body.error.code], JSON.stringify(body)).toEqual([503, 'too_slow']);
  }
  const refusedMs = performance.now() - begin;
  report.note(`a grammar of minutes, asked four times: refused within ${Math.round(refusedMs)} ms`);
  expect(besideMs).toBeLessThan(refusedMs / 2);
  const stops = [
    Array.from({ length: 10_000 }, (_, i) => `stop ${i}`),
    ['x'.repeat(100_000)],
    Array.from({ length: 10_000 }, () => ''),
  ];
  for (const stop of stops) {
    for (const [path, asked] of [
      [PATH, { prompt: 'Hello' }],
      ['/v1/chat/completions', { messages }],
    ] as const) {
      const { status, body } = await server.post(path, { ...asked, stop });
      expect([status, body.error.param]).toEqual([400, expect.stringContaining('stop')]);
      expect(body.error.message.length).toBeLessThan(500);
    }
  }
  await nothingHeld(server);
  expect(await server.stop()).toBe(0);
});
