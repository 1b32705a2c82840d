// A mixed load for each kind of model: 60 requests, 16 at a time, at the smallest workable budget. Each answer must
// be the one that the request gets alone with every expert resident, whatever other requests share its passes.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REPO, ServerProcess, MINI as SWITCH_MINI, sst2 } from '../../support/server-process.js';

const OLMOE_MINI = join(REPO, 'models/olmoe-mini');

const REQUESTS = 60;
const AT_A_TIME = 16;

interface Request {
  path: string;
  body: Record<string, unknown>;
  /** How the client reads the answer. `cancel` closes the stream after some chunks. */
  how: 'whole' | 'stream' | 'cancel';
}

const sentences = sst2();
const text = (i: number) => sentences[(i * 37) % sentences.length]!.text;

/** Mixes completions of three lengths, classifications, streams and cancellations, greedy and sampled. */
function requestsOf(kind: 'encoder-decoder' | 'decoder-only'): Request[] {
  return Array.from({ length: REQUESTS }, (_, i): Request => {
    if (i % 4 === 3) {
      const task =
        kind === 'encoder-decoder'
          ? { task: 'sst2' }
          : { template: '{text}', labels: [' noun', ' a verb', ' x'] };
      return { path: '/v1/classify', body: { ...task, input: [text(i), text(i + 1)] }, how: 'whole' };
    }
    const words = text(i).split(' ');
    const prompt =
      kind === 'encoder-decoder' ? `A fine <extra_id_0>. ${text(i)}` : words.slice(0, 3 + (i % 40)).join(' ');
    const max_tokens = [4, 17, 48][i % 3]!;
    const sampling = i % 5 < 2 ? {} : { temperature: 0.9, top_p: 0.95, seed: i, n: 1 + (i % 2) };
    const how = (['whole', 'stream', 'cancel', 'whole', 'stream'] as const)[i % 5]!;
    return { path: '/v1/completions', body: { prompt, max_tokens, ...sampling }, how };
  });
}

/** The text of each choice, or the scores. */
async function answerOf(server: ServerProcess, { path, body }: Request): Promise<unknown> {
  const answer = await server.post(path, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return path === '/v1/classify'
    ? answer.body.data
    : answer.body.choices.map((choice: { text: string }) => choice.text);
}

/** The text of each choice, joined from the chunks of a stream; undefined when the client left early. */
async function streamed(server: ServerProcess, { path, body, how }: Request): Promise<string[] | undefined> {
  const controller = new AbortController();
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
    signal: controller.signal,
  });
  expect(response.status).toBe(200);
  const texts: string[] = [];
  let rest = '';
  let events = 0;
  for await (const bytes of response.body!.pipeThrough(
    new TextDecoderStream(),
  ) as unknown as AsyncIterable<string>) {
    const parts = (rest + bytes).split('\n\n');
    rest = parts.pop()!;
    for (const part of parts) {
      if (!part.startsWith('data: {')) continue;
      events += 1;
      for (const { index, text: piece } of JSON.parse(part.slice(6)).choices as {
        index: number;
        text: string;
      }[]) {
        texts[index] = (texts[index] ?? '') + piece;
      }
    }
    if (how === 'cancel' && events >= 2) {
      controller.abort();
      return undefined;
    }
  }
  return texts;
}

async function inParallel<T>(requests: Request[], run: (request: Request) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const client = async () => {
    for (let i = next++; i < requests.length; i = next++) results[i] = await run(requests[i]!);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, client));
  return results;
}

const KINDS = [
  { kind: 'encoder-decoder', model: SWITCH_MINI },
  { kind: 'decoder-only', model: OLMOE_MINI },
] as const;

describe.each(KINDS)('$kind: $model', ({ kind, model }) => {
  let server: ServerProcess;
  beforeAll(async () => {
    const limits = ['--max-batch-tokens', '256', '--kv-tokens', '2048'];
    server = await ServerProcess.start(['--model', model, '--memory-budget', '100%', ...limits]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('gives a mixed load at the smallest budget the answers that each request gets alone at 100 %', async () => {
    const requests = requestsOf(kind);
    const alone: unknown[] = [];
    for (const request of requests) alone.push(await answerOf(server, request));
    await server.setBudget('smallest');
    const mixed = await inParallel(requests, (request) =>
      request.how === 'whole' ? answerOf(server, request) : streamed(server, request),
    );
    let compared = 0;
    mixed.forEach((answer, i) => {
      if (answer === undefined) return;
      compared += 1;
      expect(answer, `request ${i}: ${JSON.stringify(requests[i])}`).toEqual(alone[i]);
    });
    expect(compared).toBeGreaterThan(REQUESTS / 2);
    const { device: after } = (await server.get('/admin/budget')).body;
    expect(after.used_bytes).toBeLessThanOrEqual(after.budget_bytes);
    // Cancelled requests leave no jobs behind, and no pages but those of the prefix cache.
    await server.until(async () => {
      const metrics: string = (await server.get('/metrics')).body;
      const pages = (kind: string) =>
        Number(new RegExp(`^sida_kv_pages${kind} (\\d+)`, 'm').exec(metrics)?.[1]);
      return pages('_free') + pages('_cached') === pages('');
    });
  }, 600_000);
});
