// --batch-order overlap through the real server: who shares a batch changes no answer, and nobody is left waiting.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MINI, metricsOf, ServerProcess, sst2 } from './server-process.js';

const sentences = sst2().map(({ text }) => text);
const SERVER = ['--model', MINI, '--max-batch-tokens', '256', '--kv-tokens', '1536', '--lookahead', '1'];
const BUDGET = ['--memory-budget', '25%', '--log-level', 'warn'];

interface Ask {
  path: string;
  body: object;
}

const classify = (input: string | string[], template: string, labels: string[], more = {}): Ask => ({
  path: '/v1/classify',
  body: { input, template, labels, ...more },
});
const sentiment = (input: string | string[], more = {}) =>
  classify(input, 'sst2 sentence: {text}', ['negative', 'positive'], more);
const paraphrase = (i: number) =>
  classify(`${sentences[i]} sentence2: ${sentences[i + 1]}`, 'mrpc sentence1: {text}', [
    'not equivalent',
    'equivalent',
  ]);
const question = (i: number) =>
  classify(
    `is it good? answer: yes paragraph: ${sentences.slice(i, i + 5).join(' ')}`,
    'multirc question: {text}',
    ['false', 'true'],
  );

/** Three tasks, generations and lists between one another, as clients send them. */
function mixed(more = {}): Ask[] {
  return Array.from({ length: 40 }, (_, i) => [
    sentiment(sentences[i]!, more),
    paraphrase(100 + i),
    question(200 + i),
    ...(i % 8 === 0
      ? [{ path: '/v1/completions', body: { prompt: `sst2 sentence: ${sentences[i]}`, max_tokens: 8 } }]
      : []),
    ...(i % 8 === 4 ? [sentiment(sentences.slice(300 + i, 306 + i))] : []),
  ]).flat();
}

async function answer(server: ServerProcess, { path, body }: Ask): Promise<unknown> {
  const { status, body: said } = await server.post(path, body);
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(said)}`);
  return said.data ?? said.choices;
}

const answers = (server: ServerProcess, asks: Ask[]) => Promise.all(asks.map((ask) => answer(server, ask)));

/** Metrics, once they tell of each input of `mixed`: 125 requests of one, and five of six. Counters lag behind answers. */
async function countersOfAll(server: ServerProcess) {
  let metric = await metricsOf(server);
  await server.until(async () => {
    metric = await metricsOf(server);
    return metric('sida_batch_inputs_total') === 155;
  });
  return metric;
}

let reference: unknown[];
beforeAll(async () => {
  const server = await ServerProcess.start([...SERVER, ...BUDGET, '--batch-order', 'arrival']);
  reference = await answers(server, mixed());
  const metric = await countersOfAll(server);
  expect(metric('sida_batch_inputs_passed_over_total')).toBe(0);
  expect(await server.stop()).toBe(0);
});

describe.each(['1', '8'])('--batch-order overlap --max-passed-over %s', (maxPassedOver) => {
  let server: ServerProcess;
  beforeAll(async () => {
    const order = ['--batch-order', 'overlap', '--max-passed-over', maxPassedOver];
    server = await ServerProcess.start([...SERVER, ...BUDGET, ...order]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('gives the answers of arrival order, and chooses', async () => {
    expect(await answers(server, mixed())).toEqual(reference);
    const metric = await countersOfAll(server);
    expect(metric('sida_batch_inputs_passed_over_total')).toBeGreaterThan(0);
    if (maxPassedOver === '1') expect(metric('sida_batch_inputs_overdue_total')).toBeGreaterThan(0);
    expect(metric('sida_hash_tables_total{state="failed"}')).toBe(0);
  });

  it('answers what shares least with the others while those never cease', async () => {
    let odd: unknown;
    const busy = Array.from({ length: 24 }, async (_, client) => {
      for (let i = 0; i < 200 && odd === undefined; i++)
        await answer(server, sentiment(sentences[(client + 24 * i) % 400]!));
    });
    odd = await answer(server, question(200));
    await Promise.all(busy);
    // The third of each round.
    expect(odd).toEqual(reference[2]);
  });

  it('goes on when jobs leave while they wait', async () => {
    const leaving = Array.from({ length: 30 }, (_, i) => {
      const { path, body } = question(200 + i);
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      };
      const signal = AbortSignal.timeout(5 + i);
      return fetch(server.url + path, { ...init, signal }).catch(() => undefined);
    });
    const [staying] = await Promise.all([answers(server, mixed()), ...leaving]);
    expect(staying).toEqual(reference);
    // Nothing of those who left is kept.
    await server.until(async () => {
      const metric = await metricsOf(server);
      return (
        metric('sida_kv_pages_free') === metric('sida_kv_pages') && metric('sida_queue_active_jobs') === 0
      );
    });
  });
});

it('predicted routing gives its own answers whoever shares a batch', async () => {
  const routed = () => mixed({ routing: 'predicted' });
  const results: unknown[] = [];
  for (const order of ['arrival', 'overlap']) {
    const server = await ServerProcess.start([...SERVER, ...BUDGET, '--batch-order', order]);
    results.push(await answers(server, routed()));
    expect(await server.stop()).toBe(0);
  }
  expect(results[1]).toEqual(results[0]);
  expect(results[0]).not.toEqual(reference);
});
