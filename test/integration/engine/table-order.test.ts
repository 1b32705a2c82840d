// Hash tables of later batches are built while passes run. Compares the order of events of a real server's profile,
// not their durations. A simulated link makes every pass much longer than the building of a table.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TraceFile } from '../../../src/profile/chrome-trace.js';
import { classifyAll, MINI, type Sentence, ServerProcess, sst2 } from '../../support/server-process.js';
import { type Span, traceSpans } from '../../support/trace-spans.js';

/** What the engine did for one batch. */
interface BatchEvents {
  /** Its `build table` event, undefined if no table was built. */
  table: Span | undefined;
  passes: Span[];
}

/** Sentences of the first request. They make more batches than the queue holds. */
const BURST = 20;
const LATER_REQUESTS = 6;

const folder = mkdtempSync(join(tmpdir(), 'sida-order-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Batches of the first request, in order. */
let burst: BatchEvents[];
/** Batches of the later requests, in order. Only the first one found the engine idle. */
let paced: BatchEvents[];
let passes: Span[];
let tableThreads: Set<string>;
let passThreads: Set<string>;

beforeAll(async () => {
  const file = join(folder, 'profile.json');
  const link = ['--memory-budget', '1%', '--link-latency', '2ms'];
  // The queue has room for all later requests. Their tables are built when they arrive, in the middle of a pass.
  const batches = ['--max-batch-tokens', '64', '--queued-batches', '8'];
  const rest = ['--profile', file, '--log-level', 'error'];
  const server = await ServerProcess.start(['--model', MINI, ...link, ...batches, ...rest]);
  const sentences = sst2();
  let burstNs: bigint;
  try {
    await classifyAll(server, sentences.slice(0, BURST));
    burstNs = process.hrtime.bigint();
    await classifyEvery(server, 40, sentences.slice(BURST));
  } finally {
    await server.stop();
  }

  const trace = JSON.parse(readFileSync(file, 'utf8')) as TraceFile;
  expect(trace.otherData.dropped).toBe(0);
  const spans = traceSpans(trace);
  const tables = spans.filter(({ name }) => name === 'build table');
  passes = spans.filter(({ category }) => category === 'pass');
  tableThreads = new Set(tables.map(({ thread }) => thread));
  passThreads = new Set(passes.map(({ thread }) => thread));
  const ids = [...new Set(passes.map(batchOf))].sort((a, b) => a - b);
  const all = ids.map((id) => ({
    table: tables.find(({ args }) => args.batch === id),
    passes: passes.filter((pass) => batchOf(pass) === id),
  }));
  const burstMs = (Number(burstNs) - trace.otherData.beginNs) / 1e6;
  burst = all.filter(({ passes: [first] }) => first!.begin < burstMs);
  paced = all.slice(burst.length);
});

/** Sends requests of two sentences, each `ms` milliseconds after the last, without waiting for answers. */
async function classifyEvery(
  server: ServerProcess,
  ms: number,
  sentences: readonly Sentence[],
): Promise<void> {
  const answers: Promise<unknown>[] = [];
  for (let i = 0; i < LATER_REQUESTS; i++) {
    answers.push(classifyAll(server, sentences.slice(2 * i, 2 * i + 2)));
    await delay(ms);
  }
  await Promise.all(answers);
}

/** The id of the batch that a pass belongs to. */
function batchOf(pass: Span): number {
  for (let at: Span | null = pass; at !== null; at = at.parent)
    if (at.name === 'batch') return at.args.batch!;
  throw new Error(`the ${pass.name} at ${pass.begin} ms belongs to no batch`);
}

const endOf = ({ passes: own }: BatchEvents) => Math.max(...own.map(({ end }) => end));

describe('table building', () => {
  it('has a thread of its own, which runs no pass', () => {
    expect(tableThreads).toEqual(new Set(['hash building']));
    expect(passThreads).toEqual(new Set(['inference']));
  });

  it('begins for the next batch before the passes of a batch end', () => {
    const later = burst.slice(1);
    expect(later.length).toBeGreaterThan(8);
    const ahead = later.filter(({ table }, i) => table !== undefined && table.begin < endOf(burst[i]!));
    expect(ahead.length).toBeGreaterThan(later.length / 2);
  });

  it('begins in the middle of a pass when the batch arrives there', () => {
    const later = paced.slice(1);
    expect(later.length).toBeGreaterThan(3);
    const beside = later.filter(({ table }) =>
      passes.some(({ begin, end }) => table !== undefined && begin < table.begin && table.begin < end),
    );
    expect(beside.length).toBeGreaterThan(later.length / 2);
  });
});
