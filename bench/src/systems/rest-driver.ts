/**
 * Runs a measurement through a real `sida serve`: requests arrive at random times whether or not earlier ones were answered,
 * and a request's time counts from its arrival, so a slow server cannot hide its queue.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { build, type Histogram } from 'hdr-histogram-js';
import { SERVE_OPTIONS } from '../../../dist/config/options.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { SIDA } from '../support/paths.js';
import { poissonArrivals } from './arrivals.js';
import { answersOf } from './digest.js';
import { engineConfig } from './engine-config.js';
import type { ArrivalWork, MeasurementWork, Sample } from './work.js';

const READY_MS = 120_000;
/** Microseconds of the histogram: up to ten minutes. */
const LONGEST_US = 600e6;

interface Answer {
  scores: number[];
  tokens: number;
}

export async function runOverRest(work: MeasurementWork, arrivals: ArrivalWork): Promise<Sample> {
  const { texts, labels, warmUp, right, pack } = work;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = spawn(process.execPath, [SIDA, 'serve', ...flagsOf(work.flags, port)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  server.stderr.on('data', (piece: Buffer) => {
    output = (output + piece.toString()).slice(-4000);
  });
  try {
    await ready(url, server, () => output);
    const ask = (i: number) => classify(url, texts[i % texts.length]!, labels);
    for (const text of warmUp) await classify(url, text, labels);
    const before = await scrape(url);
    const histogram = build({ lowestDiscernibleValue: 1, highestTrackableValue: LONGEST_US, numberOfSignificantValueDigits: 3 }); // biome-ignore format: one line
    const { answers, refused, wallMs } = await load(arrivals, ask, histogram);
    // Counters are sent about ten times a second.
    await delay(300);
    const after = await scrape(url);
    const first = Array.from({ length: Math.min(texts.length, arrivals.requests) }, (_, i) => answers[i]);
    const known = first.filter((answer) => answer !== undefined);
    const since = (name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
    const found = (how: string) => since(`sida_experts_found_total{found="${how}"}`);
    const { maxBatchTokens, kvTokens, threads, routing, routingK } = engineConfig(work.flags);
    const limits = {
      maxBatchTokens,
      kvTokens,
      threads,
      ...(routingK !== null && { maxRoutingK: routingK }),
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
      beladyBytes: since('sida_belady_bytes_total'),
      prefetchesBegun: since('sida_prefetches_total'),
      prefetchesWasted: since('sida_prefetches_wasted_total'),
      routingsPredicted: since('sida_predictor_routings_total'),
      routingHitsTop1: since('sida_predictor_hits_total{top="1"}'),
      routingHitsTop3: since('sida_predictor_hits_total{top="3"}'),
      ...answersOf(
        known.map(({ scores }) => scores),
        right,
      ),
      // Without some of its answers a run cannot be compared.
      ...(known.length < first.length && { digest: '' }),
      warnings: refused > 0 ? [`${refused} of ${arrivals.requests} requests were refused or failed`] : [],
    };
  } finally {
    await stop(server);
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

async function classify(url: string, input: string, labels: readonly string[]): Promise<Answer> {
  const response = await fetch(`${url}/v1/classify`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ template: '{text}', labels, input }),
  });
  const body = (await response.json()) as {
    data: { scores: Record<string, number> }[];
    usage: { prompt_tokens: number };
  };
  if (!response.ok) throw new Error(`${response.status}`);
  return { scores: labels.map((label) => body.data[0]!.scores[label]!), tokens: body.usage.prompt_tokens };
}

/** Figures of /metrics by name and labels, as they stand there. */
async function scrape(url: string): Promise<Map<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

async function ready(url: string, server: ChildProcess, output: () => string): Promise<void> {
  const begin = performance.now();
  while (performance.now() - begin < READY_MS) {
    if (server.exitCode !== null) throw new Error(`sida serve ended with ${server.exitCode}: ${output()}`);
    const answer = await fetch(`${url}/health/ready`).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.status === 200) return;
    await delay(50);
  }
  throw new Error(`sida serve was not ready after ${READY_MS / 1000} s: ${output()}`);
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return;
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGTERM');
  await ended;
}

function flagsOf(flags: Record<string, string>, port: number): string[] {
  const all = { ...flags, host: '127.0.0.1', port: String(port), logLevel: 'error' };
  return Object.entries(all).flatMap(([name, value]) => [
    `--${SERVE_OPTIONS[name as keyof typeof SERVE_OPTIONS].flag}`,
    value,
  ]);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('No free port. This is a bug.');
  return address.port;
}
