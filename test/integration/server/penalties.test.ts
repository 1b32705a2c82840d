// Penalties, biases and sampling over HTTP, for both kinds of models. Greedy texts are those of a plain loop over the
// model's logits in float64, and all texts are the same at every budget, after sequences gave way, and beside other
// requests.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PlainLogits } from '../../support/plain-logits.js';
import { type Answer, REPO, ServerProcess } from '../../support/server-process.js';

interface Penalties {
  presence_penalty?: number;
  frequency_penalty?: number;
  repetition_penalty?: number;
  logit_bias?: Record<string, number>;
}

/** `givesWay`: whether its sequences give their pages to others. Those of encoder-decoders keep what they reserved. */
interface Model {
  name: string;
  directory: string;
  end: number;
  givesWay: boolean;
}

const FIXTURES = join(REPO, 'test/fixtures');
const MODELS: Model[] = [
  { name: 'olmoe-tiny', directory: join(FIXTURES, 'olmoe-tiny'), end: 2, givesWay: true },
  { name: 'switch-tiny', directory: join(FIXTURES, 'switch-tiny'), end: 1, givesWay: false },
];

/** The logits that the next token of `text` is picked from. */
function penalized(plain: PlainLogits, prompt: number[], text: number[], asked: Penalties): number[] {
  const { presence_penalty: presence = 0, frequency_penalty: frequency = 0 } = asked;
  const { repetition_penalty: repetition = 1, logit_bias: biases = {} } = asked;
  const before = plain.before(prompt);
  return Array.from(plain.after(prompt, text), (logit, id) => {
    const times = text.filter((token) => token === id).length;
    const biased = logit + (biases[id] ?? 0);
    const seen = times > 0 || before.includes(id);
    const repeated = !seen ? biased : biased > 0 ? biased / repetition : biased * repetition;
    return repeated - times * frequency - (times > 0 ? presence : 0);
  });
}

function choices({ status, body }: Answer): number[][] {
  expect(status, JSON.stringify(body)).toBe(200);
  return (body.choices as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
}

const tokens = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * i * 7 + i) % 125));

const ask = async (server: ServerProcess, request: object) =>
  choices(await server.post('/v1/completions', { return_token_ids: true, ...request }));

describe.each(MODELS)('penalties and biases of $name', ({ directory, end, givesWay }) => {
  let plain: PlainLogits;
  let roomy: ServerProcess;
  let crowded: ServerProcess;

  const start = (budget: string, kvTokens: number) =>
    ServerProcess.start([
      ...['--model', directory, '--memory-budget', budget, '--max-batch-tokens', '64'],
      ...['--kv-tokens', String(kvTokens)],
    ]);

  beforeAll(async () => {
    plain = await PlainLogits.open(directory);
    roomy = await start('100%', 4096);
    crowded = await start('1%', 384);
  });
  afterAll(async () => {
    plain.close();
    await roomy.stop();
    await crowded.stop();
  });

  const prompt = tokens(4, 12);
  const endless = { [end]: -100 };

  function greedy(steps: number, asked: Penalties): number[] {
    const text: number[] = [];
    while (text.length < steps && text.at(-1) !== end) {
      const logits = penalized(plain, prompt, text, asked);
      text.push(logits.indexOf(Math.max(...logits)));
    }
    return text;
  }

  it.each<[string, (first: number) => Penalties]>([
    ['biases', (first) => ({ logit_bias: { 5: 3.5, [first]: -100, ...endless } })],
    [
      'all of them',
      () => ({
        presence_penalty: 0.4,
        frequency_penalty: 0.2,
        repetition_penalty: 1.1,
        logit_bias: { 7: 1, [end]: -2 },
      }),
    ],
  ])('of %s give the texts of a plain loop', async (_, penaltiesOf) => {
    const unpenalized = greedy(24, { logit_bias: endless });
    const [first] = unpenalized;
    const request = { prompt, max_tokens: 24, logit_bias: endless, ...penaltiesOf(first!) };
    const wanted = greedy(24, request);
    expect(wanted).not.toEqual(unpenalized);
    if ((request.logit_bias as Record<string, number>)[first!] === -100) expect(wanted).not.toContain(first);
    expect(await ask(roomy, request)).toEqual([wanted]);
    expect(await ask(crowded, request)).toEqual([wanted]);
  });

  it('give the same texts at every budget, after sequences gave way, and beside other requests', async () => {
    const requests = Array.from({ length: 12 }, (_, i) => ({
      prompt: tokens(i, 20),
      max_tokens: 60,
      ...(i % 3 > 0 && { temperature: 1, seed: i, n: i % 3 }),
      ...(i % 4 > 0 && { presence_penalty: 0.5, frequency_penalty: 0.1 * i, repetition_penalty: 1.2 }),
      logit_bias: endless,
    }));
    const alone: number[][][] = [];
    for (const request of requests) alone.push(await ask(roomy, request));
    expect(await Promise.all(requests.map((request) => ask(crowded, request)))).toEqual(alone);
    const { body } = await crowded.get('/metrics');
    const preemptions = Number(/^sida_preemptions_total (\S+)$/m.exec(body)![1]);
    expect(preemptions > 0).toBe(givesWay);
  }, 120_000);

  it('leave log-probabilities as the model gives them', async () => {
    const request = { prompt, max_tokens: 1, logprobs: 2 };
    const unbiased = await roomy.post('/v1/completions', request);
    const biased = await roomy.post('/v1/completions', { ...request, logit_bias: { 6: 100 } });
    const [free, forced] = [unbiased, biased].map(({ body }) => body.choices[0].logprobs);
    expect(forced.top_logprobs).toEqual(free.top_logprobs);
    expect(forced.token_logprobs[0]).toBeLessThan(free.token_logprobs[0]);
  });

  it('of a token that the model has not are refused with the number', async () => {
    const { status, body } = await roomy.post('/v1/completions', { prompt, logit_bias: { 99999: 1 } });
    expect([status, body.error.param]).toEqual([400, 'logit_bias']);
    expect(body.error.message).toMatch(/The token id 99999 is outside the vocabulary of \d+$/);
  });
});
