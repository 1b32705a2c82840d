/**
 * Runs a measurement through a real `sida serve`. Requests arrive at random times, whether or not earlier ones were
 * answered, and a request's time counts from its arrival, so a slow server cannot hide its queue.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { build, type Histogram } from 'hdr-histogram-js';
import { SERVE_OPTIONS } from '../../../dist/config/options.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { ServeProcess } from '../support/serve-process.js';
import { poissonArrivals } from './arrivals.js';
import { answersOf } from './digest.js';
import { engineConfig } from './engine-config.js';
import type { ArrivalWork, MeasurementWork, Sample } from './work.js';

/** Longest time in the histogram, in microseconds: ten minutes. */
const LONGEST_US = 600e6;

interface Answer {
  scores: number[];
  tokens: number;
}

export async function runOverRest(work: MeasurementWork, arrivals: ArrivalWork): Promise<Sample> {
  const { texts, labels, warmUp, right, pack } = work;
  const server = await ServeProcess.start(flagsOf(work.flags));
  try {
    const ask = (i: number) => classify(server, texts[i % texts.length]!, labels);
    for (const text of warmUp) await classify(server, text, labels);
    const before = await server.metrics();
    const histogram = build({ lowestDiscernibleValue: 1, highestTrackableValue: LONGEST_US, numberOfSignificantValueDigits: 3 }); // biome-ignore format: one line
    const { answers, refused, wallMs } = await load(arrivals, ask, histogram);
    // The engine reports its counters about ten times a second.
    await delay(300);
    const after = await server.metrics();
    const first = Array.from({ length: Math.min(texts.length, arrivals.requests) }, (_, i) => answers[i]);
    const known = first.filter((answer) => answer !== undefined);
    const since = (name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
    const found = (how: string) => since(`sida_experts_found_total{found="${how}"}`);
    const { maxBatchTokens, kvTokens, kv, kvWindows, threads, routing, routingK } = engineConfig(work.flags);
    const limits = {
      maxBatchTokens,
      kvTokens,
      kv,
      kvWindows,
      threads,
      ...(routingK !== undefined && { maxRoutingK: routingK }),
      routers: routing === 'exact',
    };
    const plan = loadAddon().planMemory({ pack }, limits);
    const ms = (percentile: number) => histogram.getValueAtPercentile(percentile) / 1000;
    return {
      sentences: arrivals.requests - refused,
      tokens: answers.reduce((sum, answer) => sum + (answer?.tokens ?? 0), 0),
      wallMs,
      p50Ms: ms(50),
      p95Ms: ms(95),
      p99Ms: ms(99),
      refused,
      slots: after.get('sida_device_slots') ?? 0,
      experts: plan.experts,
      slotBytes: plan.slot,
      budgetBytes: after.get('sida_device_budget_bytes') ?? 0,
      peakBytes: after.get('sida_device_peak_bytes') ?? 0,
      fixedBytes: plan.fixed,
      needed: since('sida_experts_needed_total'),
      resident: found('resident'),
      prefetched: found('prefetched'),
      late: found('late'),
      onDemand: found('on_demand'),
      bytesMoved: since('sida_experts_moved_bytes_total'),
      stallSeconds: since('sida_experts_stall_seconds_total'),
      passSeconds: since('sida_pass_seconds_total'),
      passes: since('sida_passes_total'),
      tableSeconds: since('sida_hash_build_seconds_total'),
      tableWaitSeconds: since('sida_hash_table_wait_seconds_total'),
      prefetchesBegun: since('sida_prefetches_total'),
      prefetchesWasted: since('sida_prefetches_wasted_total'),
      routingsPredicted: since('sida_predictor_routings_total'),
      routingHitsTop1: since('sida_predictor_hits_total{top="1"}'),
      routingHitsTop3: since('sida_predictor_hits_total{top="3"}'),
      ...answersOf(
        known.map(({ scores }) => scores),
        right,
      ),
      // A run that lacks answers cannot be compared.
      ...(known.length < first.length && { digest: '' }),
      warnings: refused > 0 ? [`${refused} of ${arrivals.requests} requests were refused or failed`] : [],
    };
  } finally {
    await server.stop();
  }
}

/** Sends each request at its time. */
async function load(
  { perSecond, requests, seed }: ArrivalWork,
  ask: (i: number) => Promise<Answer>,
  histogram: Histogram,
): Promise<{ answers: (Answer | undefined)[]; refused: number; wallMs: number }> {
  const due = poissonArrivals(perSecond, requests, seed);
  const answers: (Answer | undefined)[] = new Array(requests).fill(undefined);
  let refused = 0;
  const begin = performance.now();
  await Promise.all(
    due.map(async (at, i) => {
      await delay(Math.max(0, at - (performance.now() - begin)));
      try {
        answers[i] = await ask(i);
        const us = 1000 * (performance.now() - begin - at);
        histogram.recordValue(Math.min(LONGEST_US, Math.max(1, Math.round(us))));
      } catch {
        refused += 1;
      }
    }),
  );
  return { answers, refused, wallMs: performance.now() - begin };
}

async function classify(server: ServeProcess, input: string, labels: readonly string[]): Promise<Answer> {
  const { data, usage } = await server.post<{
    data: { scores: Record<string, number> }[];
    usage: { prompt_tokens: number };
  }>('/v1/classify', { template: '{text}', labels, input });
  return { scores: labels.map((label) => data[0]!.scores[label]!), tokens: usage.prompt_tokens };
}

function flagsOf(flags: Record<string, string>): string[] {
  const all = { ...flags, logLevel: 'error' };
  return Object.entries(all).flatMap(([name, value]) => [
    `--${SERVE_OPTIONS[name as keyof typeof SERVE_OPTIONS].flag}`,
    value,
  ]);
}
