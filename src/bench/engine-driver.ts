/**
 * Runs a cell on the native engine alone, one batch after the other, with a plan that needs no predictor: what the
 * threads of `sida serve` would add is left out in favour of these systems.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LabelScoring, targetsWithin } from '../batching/label-scoring.js';
import { passAnswers, passBatch } from '../batching/pass-batch.js';
import { planScoring } from '../batching/scoring-plan.js';
import { budgetBytes, hostBudgetBytes } from '../config/budget.js';
import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import { planOnDemand } from '../inference/residency-planner.js';
import { firstMoeLayer } from '../model/model-shape.js';
import { loadAddon } from '../native/addon.js';
import {
  type Engine,
  type NativeBatch,
  NO_PARENT,
  type RunResult,
  type RunStats,
} from '../native/addon-types.js';
import type { ScoringPlan } from '../protocol/item-work.js';
import { Tokenizer } from '../text/tokenizer.js';
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
  if (system === 'layer-streaming') {
    const planFrom = (first: number) => streamingPlan(first, moeLayers.length, experts);
    const plans = engine.shape.stacks.map((_, stack) => planFrom(firstMoeLayer(engine.shape, stack)));
    return (batch) => engine.runBatch({ ...batch, wholeLayers: true }, plans[batch.stack]!);
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

interface GroupAnswer {
  /** Of each sentence. */
  scores: number[][];
  stats: RunStats[];
}

/** Sentences through the encoder in one pass, all their labels through the decoder in another. */
function scoreGroup(
  engine: Engine,
  pass: Pass,
  group: readonly Int32Array[],
  plan: ScoringPlan,
): GroupAnswer {
  const sentences = group.map((tokens, i) => ({ job: 0, sequence: i + 1, parent: NO_PARENT, tokens }));
  const encoded = pass(passBatch(0, sentences));
  const labels = sentences.flatMap(({ sequence: parent }, i) =>
    plan.inputs.map((fed, j) => {
      const sequence = group.length + 1 + i * plan.inputs.length + j;
      return { job: 0, sequence, parent, tokens: fed.tokens, ...targetsWithin(fed, 0, fed.tokens.length) };
    }),
  );
  const decoded = pass(passBatch(1, labels));
  const scorings = group.map(() => new LabelScoring(plan));
  passAnswers(labels, decoded).forEach(({ logprobs }, i) => {
    scorings[Math.floor(i / plan.inputs.length)]!.take(labels[i]!.targets, logprobs);
  });
  engine.releaseSequences(Int32Array.from([...labels, ...sentences], ({ sequence }) => sequence));
  return { scores: scorings.map((scoring) => scoring.sums()), stats: [encoded.stats, decoded.stats] };
}

function measure(engine: Engine, work: CellWork): Sample {
  const { pack, texts, labels, warmUp, right, batch } = work;
  const { vocabSize, tokens: special } = engine.shape;
  const tokenizer = new Tokenizer(readFileSync(join(pack, 'tokenizer.json')), {
    vocabSize,
    maxInputBytes: 1 << 20,
  });
  const scoring = planScoring(
    labels.map((label) => tokenizer.encodePlain(label)),
    special.start,
    special.end[0],
  );
  const inputs = texts.map((text) => Int32Array.from(tokenizer.encode(text)));
  const pass = passOf(engine, work);
  const answer = (group: readonly Int32Array[]) => scoreGroup(engine, pass, group, scoring);
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
