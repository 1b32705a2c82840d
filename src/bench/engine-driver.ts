/**
 * Runs a cell on the native engine alone, one batch after the other, with a plan that needs no predictor: what the
 * threads of `sida serve` would add is left out in favour of these systems.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { budgetBytes, hostBudgetBytes } from '../engine/budget.js';
import { scoreBatch, scoresOf } from '../evaluation/model-runner.js';
import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import { planOnDemand } from '../inference/residency-planner.js';
import { planScoring } from '../inference/scoring.js';
import { loadAddon } from '../native/addon.js';
import type { Engine, NativeBatch, RunResult, RunStats } from '../native/addon-types.js';
import { Tokenizer } from '../tokenizer/tokenizer.js';
import { groupsOf } from './batches.js';
import type { CellWork, Sample } from './cell-work.js';
import { answersOf } from './digest.js';
import { engineConfig } from './engine-config.js';
import { streamingPlan } from './layer-streaming.js';
import { quantile } from './statistics.js';

/** How a system runs one pass. */
type Pass = (batch: NativeBatch) => RunResult;

const COUNTED = [
  'needed',
  'resident',
  'prefetched',
  'late',
  'onDemand',
  'bytesMoved',
  'prefetchesBegun',
  'prefetchesWasted',
] as const satisfies readonly (keyof RunStats)[];

export function runOnEngine(work: CellWork): Sample {
  const engine = openEngine(work);
  try {
    return measure(engine, work);
  } finally {
    engine.close();
  }
}

function openEngine({ flags, pack }: CellWork): Engine {
  const addon = loadAddon();
  const config = engineConfig(flags);
  const { maxBatchTokens, kvTokens, threads, device, linkBandwidth, linkLatencyMs } = config;
  const limits = { maxBatchTokens, kvTokens, threads, device };
  const plan = addon.planMemory({ pack }, limits);
  return new addon.Engine({
    ...limits,
    pack,
    budgetBytes: budgetBytes(config.memoryBudget, plan),
    hostBudgetBytes: hostBudgetBytes(config.hostBudget, plan),
    linkBandwidth,
    linkLatency: linkLatencyMs / 1000,
  });
}

function passOf(engine: Engine, { system, hot }: CellWork): Pass {
  const { experts, moeLayers } = engine.shape;
  const encoderLayers = moeLayers.filter((layer) => layer.startsWith('encoder.')).length;
  if (system === 'layer-streaming') {
    const planFrom = (first: number) => streamingPlan(first, moeLayers.length, experts);
    const plans = { encode: planFrom(0), decode: planFrom(encoderLayers) };
    return (batch) => engine.runBatch({ ...batch, wholeLayers: true }, plans[batch.phase]);
  }
  if (system === 'expert-buffering')
    return (batch) =>
      engine.runBatch(batch, planOnDemand(engine.residency(), EVICTION_POLICIES['expert-buffering']));
  if (system === 'static-hot') {
    const { slots } = engine.usage();
    const pinned = hot!.slice(0, slots < engine.plan.experts ? slots - 1 : slots);
    engine.pin(Uint32Array.from(pinned), true);
    return (batch) => engine.runBatch(batch, planOnDemand(engine.residency(), EVICTION_POLICIES.lru));
  }
  throw new Error(`${system} is not run by the engine alone. This is a bug.`);
}

/** Sequences one after the other, as a native batch takes them. */
function joined(group: readonly Int32Array[]): { offsets: Int32Array; tokens: Int32Array } {
  const offsets = new Int32Array(group.length + 1);
  group.forEach((tokens, i) => {
    offsets[i + 1] = offsets[i]! + tokens.length;
  });
  const tokens = new Int32Array(offsets[group.length]!);
  group.forEach((own, i) => {
    tokens.set(own, offsets[i]);
  });
  return { offsets, tokens };
}

function measure(engine: Engine, work: CellWork): Sample {
  const { pack, texts, labels, warmUp, right, batch } = work;
  const { vocabSize, decoderStartTokenId, eosTokenId } = engine.shape;
  const tokenizer = new Tokenizer(readFileSync(join(pack, 'tokenizer.json')), {
    vocabSize,
    maxInputBytes: 1 << 20,
  });
  const scoring = planScoring(
    labels.map((label) => tokenizer.encodePlain(label)),
    decoderStartTokenId,
    eosTokenId,
  );
  const rows = scoring.inputs.reduce((sum, input) => sum + input.rows.length, 0) * vocabSize;
  const inputs = texts.map((text) => Int32Array.from(tokenizer.encode(text)));
  const pass = passOf(engine, work);
  const answer = (group: readonly Int32Array[]): { scores: number[][]; stats: RunStats[] } => {
    const contexts = Int32Array.from(group, (_, i) => i + 1);
    const encoded = pass({ phase: 'encode', sequences: contexts, ...joined(group) });
    const decode = scoreBatch(scoring, group.length);
    const decoded = pass(decode);
    engine.releaseSequences(decode.sequences);
    engine.releaseContexts(contexts);
    const scores = group.map((_, i) =>
      scoresOf(scoring, decoded.logits!.subarray(i * rows, (i + 1) * rows), vocabSize),
    );
    return { scores, stats: [encoded.stats, decoded.stats] };
  };
  const warm = warmUp.map((text) => Int32Array.from(tokenizer.encode(text)));
  for (const group of groupsOf(warm, batch)) answer(group);

  const totals = Object.fromEntries(COUNTED.map((key) => [key, 0])) as Record<
    (typeof COUNTED)[number],
    number
  >;
  let [stallNs, passNs, passes] = [0, 0, 0];
  const milliseconds: number[] = [];
  const scores: number[][] = [];
  const begin = performance.now();
  for (const group of groupsOf(inputs, batch)) {
    const started = performance.now();
    const { scores: own, stats } = answer(group);
    milliseconds.push(performance.now() - started);
    scores.push(...own);
    for (const each of stats) {
      for (const key of COUNTED) totals[key] += each[key];
      stallNs += each.stallNs;
      passNs += each.passNs;
      passes += 1;
    }
  }
  const wallMs = performance.now() - begin;
  engine.checkIntegrity();
  const usage = engine.usage();
  return {
    sentences: inputs.length,
    tokens: inputs.reduce((sum, tokens) => sum + tokens.length, 0),
    wallMs,
    p50Ms: quantile(milliseconds, 0.5),
    p95Ms: quantile(milliseconds, 0.95),
    p99Ms: quantile(milliseconds, 0.99),
    slots: usage.slots,
    experts: engine.plan.experts,
    slotBytes: engine.plan.slot,
    budgetBytes: usage.budgetBytes,
    peakBytes: usage.peakBytes,
    fixedBytes: engine.plan.fixed,
    ...totals,
    stallSeconds: stallNs / 1e9,
    passSeconds: passNs / 1e9,
    passes,
    tableSeconds: 0,
    tableWaitSeconds: 0,
    beladyBytes: 0,
    routingsPredicted: 0,
    routingHitsTop1: 0,
    routingHitsTop3: 0,
    ...answersOf(scores, right),
    warnings: [],
  };
}
