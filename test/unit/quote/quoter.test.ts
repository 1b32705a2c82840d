// Quotes: what is expected of a request, and what answers teach.
import { expect, it } from 'vitest';
import type { Fit, PassRates, Quote } from '../../../src/protocol/quote.js';
import { NO_FIT } from '../../../src/quote/least-squares.js';
import { noSums, type StackCost } from '../../../src/quote/pass-rates.js';
import { Quoter } from '../../../src/quote/quoter.js';
import type { PreparedInput } from '../../../src/tasks/shared/prepared-input.js';

const STACK: StackCost = { layerExperts: [8, 8], topK: 2, dense: 9_600, expertBytes: 100 };
/** A pass of one token takes 10 ms and needs 4 experts. One of the 4 is not resident. */
const STEP = {
  ...{ passes: 50, needed: 200, missed: 50, stallSeconds: 0, spread: NO_FIT },
  misses: NO_FIT,
  time: [50 * 1e12, 50 * 1e8, 50 * 1e4, 50 * 1e6, 50 * 100] as Fit,
};
/** One of 32 tokens takes 50 ms. */
const PROMPT = {
  ...noSums(),
  ...{ passes: 50, needed: 800, missed: 200 },
  time: [50 * 224e3 ** 2, 50 * 224e3 * 640, 50 * 640 ** 2, 50 * 224e3, 50 * 640] as Fit,
};
const RATES: PassRates = { sums: [PROMPT, STEP], slots: 8 };

const input = (tokens: number, maxTokens: number, choices = 1): PreparedInput => ({
  tokens: new Int32Array(tokens),
  work: { kind: 'generate', maxTokens, logprobs: null, choices: new Array(choices).fill(null) },
});

function quoter(): Quoter {
  const made = new Quoter({ stacks: [STACK], maxBatchTokens: 32, experts: 16, bytesPerSecond: 0 });
  made.rates = RATES;
  return made;
}

/** Runs a job that takes `times` what was expected of it. */
function run(made: Quoter, job: number, inputs: PreparedInput[], times: number, share = 1): Quote {
  const plain = quoter().quote('chat', inputs, 0);
  const quote = made.admit(job, 'chat', inputs, 0);
  const { seconds, firstSeconds, experts, bytes, maxTokens, promptTokens } = plain;
  const used = share * maxTokens;
  const of = (most: number, first: number) =>
    times * (first + ((most - first) * (used - 1)) / (maxTokens - 1));
  const outcome = {
    firstSeconds: times * firstSeconds.p50,
    seconds: of(seconds.p50, firstSeconds.p50),
    cost: { needed: experts.p50 * times, bytes: bytes.p50 * times },
    ...{ promptTokens, cachedTokens: 0, completionTokens: used },
  };
  made.answered(job, outcome, 0);
  made.dropped(job);
  return quote;
}

it('counts a pass for each token after the first', () => {
  const [short, long] = [11, 21].map((most) => quoter().quote('chat', [input(1, most)], 0));
  expect(long!.seconds.p50 - short!.seconds.p50).toBeCloseTo(0.1, 3);
  expect(long!.experts.p50 - short!.experts.p50).toBeCloseTo(40);
  expect(long!.bytes.p50 - short!.bytes.p50).toBeCloseTo(1_000, -2);
  expect(long!.firstSeconds).toEqual(short!.firstSeconds);
  expect(long).toMatchObject({ promptTokens: 1, maxTokens: 21, jobsAhead: 0, queueSeconds: 0, measured: 0 });
});

it('charges the experts of every choice, and the time of a pass once', () => {
  const [one, two] = [1, 2].map((n) => quoter().quote('chat', [input(1, 101, n)], 0));
  expect(two!.experts.p50).toBeGreaterThan(1.5 * one!.experts.p50);
  expect(two!.seconds.p50).toBeLessThan(1.5 * one!.seconds.p50);
});

it('adds the time of the tokenizer', () => {
  const [none, some] = [0, 250].map((ms) => quoter().quote('chat', [input(5, 5)], ms).seconds.p90);
  expect(some! - none!).toBeCloseTo(0.25);
});

it('learns how far answers are from what was expected', () => {
  const made = quoter();
  const before = made.quote('chat', [input(10, 20)], 0);
  for (let job = 0; job < 64; job += 1) run(made, job, [input(10, 20)], job % 8 === 0 ? 4 : 2);
  const after = made.quote('chat', [input(10, 20)], 0);
  expect(after.measured).toBe(64);
  expect(after.seconds.p50 / before.seconds.p50).toBeCloseTo(2);
  expect(after.seconds.p90 / before.seconds.p50).toBeCloseTo(4);
  expect(after.bytes.p50 / before.bytes.p50).toBeCloseTo(2);
  expect(made.quote('complete', [input(10, 20)], 0).measured).toBe(0);
});

it('counts answers within their quote', () => {
  const made = quoter();
  // Twice the estimate is the first quote of 90 %.
  for (const [job, times] of [1, 1.9, 3].entries()) run(made, job, [input(10, 20)], times);
  expect(made.counts).toEqual({ answers: 3, within: 2 });
});

it('expects half of the answers to be as short as answers were, and counts on all tokens for 90 %', () => {
  const made = quoter();
  for (let job = 0; job < 40; job += 1) run(made, job, [input(10, 101)], 1, 0.25);
  const { seconds } = made.quote('chat', [input(10, 101)], 0);
  expect(seconds.p90 / seconds.p50).toBeGreaterThan(3);
  // Short answers do not look like fast ones.
  const full = quoter().quote('chat', [input(10, 101)], 0);
  expect(seconds.p90 / full.seconds.p50).toBeCloseTo(1, 1);
});

it('waits for prompts ahead, and shares passes with those that generate', () => {
  const made = quoter();
  const alone = made.quote('chat', [input(10, 50)], 0);
  made.admit(1, 'chat', [input(64, 50)], 0);
  const behind = made.quote('chat', [input(10, 50)], 0);
  expect(behind.jobsAhead).toBe(1);
  expect(behind.queueSeconds).toBeGreaterThan(0);
  expect(behind.firstSeconds.p50 - alone.firstSeconds.p50).toBeCloseTo(behind.queueSeconds);
  made.begun(1);
  const beside = made.quote('chat', [input(10, 50)], 0);
  expect(beside.queueSeconds).toBeLessThan(behind.queueSeconds);
  expect(beside.seconds.p50).toBeGreaterThan(1.02 * alone.seconds.p50);
  expect(beside.bytes.p50).toBeCloseTo(alone.bytes.p50);
  expect(alone.aloneSeconds).toBeCloseTo(alone.seconds.p50);
  expect([behind.aloneSeconds, beside.aloneSeconds]).toEqual([alone.aloneSeconds, alone.aloneSeconds]);
  made.dropped(1);
  expect(made.quote('chat', [input(10, 50)], 0)).toEqual(alone);
});

it('does not learn times of requests that others joined', () => {
  const made = quoter();
  made.admit(1, 'chat', [input(10, 20)], 0);
  made.admit(2, 'chat', [input(10, 20)], 0);
  const outcome = { firstSeconds: 9, seconds: 9, cost: { needed: 9, bytes: 9 } };
  made.answered(1, { ...outcome, promptTokens: 10, cachedTokens: 0, completionTokens: 20 }, 0);
  made.dropped(1);
  made.dropped(2);
  expect(made.quote('chat', [input(10, 20)], 0).measured).toBe(0);
});

it('learns what each answer takes beside its passes', () => {
  const made = quoter();
  for (let job = 0; job < 40; job += 1) {
    const inputs = [input(10, 5 + (job % 4) * 20)];
    const { seconds } = quoter().quote('chat', inputs, 0);
    const { maxTokens: completionTokens } = made.admit(job, 'chat', inputs, 0);
    const cost = { needed: 9, bytes: 9 };
    const outcome = { firstSeconds: 0.5, seconds: 0.5 + seconds.p50, cost };
    made.answered(job, { ...outcome, promptTokens: 10, cachedTokens: 0, completionTokens }, 0);
    made.dropped(job);
  }
  for (const most of [3, 200]) {
    const plain = quoter().quote('chat', [input(10, most)], 0).seconds.p50;
    expect(made.quote('chat', [input(10, most)], 0).seconds.p90).toBeCloseTo(0.5 + plain, 1);
  }
});

it('expects others that end to be followed by others like them', () => {
  const beside = (prompt: number) => {
    const made = quoter();
    made.admit(1, 'chat', [input(prompt, 5)], 0);
    made.begun(1);
    return made.quote('chat', [input(10, 50)], 0).seconds.p50;
  };
  // A prompt of 320 tokens takes ten passes of 50 ms, and comes every five passes.
  expect(beside(320)).toBeGreaterThan(2 * beside(1));
});

it('quotes more for more tokens after answers that were alike and noisy', () => {
  const made = quoter();
  // The longer of two requests that differ a little took less, by chance.
  for (let job = 0; job < 24; job += 1)
    run(made, job, [input(20, job % 2 === 0 ? 24 : 28)], job % 2 === 0 ? 1.3 : 0.8);
  const [few, many] = [8, 200].map((most) => made.quote('chat', [input(30, most)], 0).seconds);
  expect(many!.p50).toBeGreaterThan(10 * few!.p50);
  expect(many!.p90).toBeGreaterThan(10 * few!.p90);
});
