// The histograms of the times at which tokens of streams leave the server.
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createTokenTimes, type TokenTimes } from '../../../src/observability/token-times.js';
import type { CompletionDelta } from '../../../src/protocol/engine-messages.js';

let registry: Registry;
let times: TokenTimes;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  registry = new Registry();
  times = createTokenTimes(registry);
});
afterEach(() => void vi.useRealTimers());

const delta = (tokens: number, index = 0): CompletionDelta => ({
  index,
  text: '',
  tokenIds: Array(tokens).fill(7),
  logprobs: null,
  finishReason: null,
});

async function found(name: string): Promise<{ count: number; sum: number; below: (le: number) => number }> {
  const values = (await registry.getSingleMetric(`sida_${name}_seconds`)!.get()).values as {
    value: number;
    metricName?: string;
    labels: Record<string, string | number>;
  }[];
  const value = (part: string, le?: number): number =>
    values.find((each) => each.metricName?.endsWith(part) && (le === undefined || each.labels.le === le))
      ?.value ?? 0;
  return { count: value('_count'), sum: value('_sum'), below: (le) => value('_bucket', le) };
}

it('measures the first token from the acceptance of the request, and each later one from the one before', async () => {
  const leaves = times.timeStream('chat');
  for (const ms of [700, 20, 20, 40]) {
    vi.advanceTimersByTime(ms);
    leaves(delta(1));
  }
  expect(await found('time_to_first_token')).toMatchObject({ count: 1, sum: 0.7 });
  const between = await found('time_between_tokens');
  expect(between.count).toBe(3);
  expect(between.sum).toBeCloseTo(0.08);
  expect([0.01, 0.025, 0.05].map(between.below)).toEqual([0, 2, 3]);
});

it('counts a time for each token of those that leave together', async () => {
  const leaves = times.timeStream('chat');
  leaves(delta(1));
  vi.advanceTimersByTime(80);
  leaves(delta(8));
  const between = await found('time_between_tokens');
  expect(between.count).toBe(8);
  expect(between.sum).toBeCloseTo(0.08);
  expect([0.005, 0.01, 0.025].map(between.below)).toEqual([0, 8, 8]);
});

it('tells the choices of a stream apart', async () => {
  const leaves = times.timeStream('complete');
  for (let step = 0; step < 3; step += 1) {
    vi.advanceTimersByTime(50);
    leaves(delta(1, 0));
    leaves(delta(1, 1));
  }
  expect(await found('time_to_first_token')).toMatchObject({ count: 1, sum: 0.05 });
  const between = await found('time_between_tokens');
  expect(between.count).toBe(4);
  expect(between.sum).toBeCloseTo(0.2);
});
