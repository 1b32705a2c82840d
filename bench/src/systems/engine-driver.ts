/**
 * Runs a measurement on the native engine alone, one batch after the other, with a plan that needs no predictor. This
 * favours these systems: the cost of the threads of `sida serve` is left out.
 */

import type { Engine, RunStats } from '../../../dist/native/addon-types.js';
import { firstMoeLayer } from '../../../dist/native/model-shape.js';
import { NOTHING_KNOWN } from '../replay/replay.js';
import { groupsOf } from './batches.js';
import { figuresOf } from './digest.js';
import { engineConfig } from './engine-config.js';
import { streamingPlan } from './layer-streaming.js';
import { heldBy, leastBytesOf, visitsOf } from './least-bytes.js';
import { openServedEngine } from './open-engine.js';
import { type Pass, scoreGroup, scoringInputs } from './scoring.js';
import type { MeasurementWork, Sample } from './work.js';

const COUNTED = [
  'needed',
  'resident',
  'prefetched',
  'late',
  'onDemand',
  'bytesMoved',
] as const satisfies readonly (keyof RunStats)[];

export function runOnEngine(work: MeasurementWork): Sample {
  const engine = openServedEngine(engineConfig(work.flags), work.pack);
  try {
    return measure(engine, work);
  } finally {
    engine.close();
  }
}

function passOf(engine: Engine, { system }: MeasurementWork): Pass {
  if (system === 'layer-streaming') {
    const { shape } = engine;
    const plans = shape.stacks.map((_, stack) => streamingPlan(firstMoeLayer(shape, stack), shape));
    return (batch) => engine.runBatch({ ...batch, wholeLayers: true }, plans[batch.stack]!);
  }
  if (system === 'expert-buffering') return (batch) => engine.runBatch(batch, NOTHING_KNOWN);
  throw new Error(`${system} is not run by the engine alone. This is a bug.`);
}

function measure(engine: Engine, work: MeasurementWork): Sample {
  const { pack, texts, labels, warmUp, batch } = work;
  const { inputs, encode, plan } = scoringInputs(pack, engine.shape, texts, labels);
  const run = passOf(engine, work);
  const visits: number[][] = [];
  const pass: Pass = (batch) => {
    const result = run(batch);
    visits.push(...visitsOf(result, engine.shape));
    return result;
  };
  const answer = (group: readonly Int32Array[]) => scoreGroup(engine, pass, group, plan);
  const warm = warmUp.map(encode);
  for (const group of groupsOf(warm, batch)) answer(group);
  const begun = heldBy(engine.residency().state);
  visits.length = 0;

  const totals = Object.fromEntries(COUNTED.map((key) => [key, 0])) as Record<(typeof COUNTED)[number], number>;
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
    ...figuresOf({ scores, milliseconds, wallMs }, inputs, engine.plan, usage),
    peakBytes: usage.peakBytes,
    ...totals,
    stallSeconds: stallNs / 1e9,
    passSeconds: passNs / 1e9,
    passes,
    tableSeconds: 0,
    tableWaitSeconds: 0,
    leastBytes: leastBytesOf({ begin: begun, visits }, engine.plan, usage.slots),
    routingsPredicted: 0,
    routingHitsTop1: 0,
    warnings: [],
  };
}
