/** From a cell and what its model has ready to the work of the process that measures it. */
import { basename } from 'node:path';
import type { CellWork } from './cell-work.js';
import { LINKS } from './links.js';
import type { ModelBench } from './model-bench.js';
import { shortHash } from './prepare.js';
import type { CellSpec } from './result.js';
import type { Cell } from './scenarios.js';
import { type Sizes, warmUpOf } from './sizes.js';
import { systemFlags, systemNamed } from './systems.js';

interface Settings {
  sizes: Sizes;
  threads: number;
  seed: number;
}

/** The work of a cell's process. */
export function workOf(cell: Cell, bench: ModelBench, { threads, seed, sizes }: Settings): CellWork {
  const { scenario, system } = cell;
  const { model, prepared, traces, hot, predictor } = bench;
  const inputs = bench.inputs.get(scenario.data)!;
  const { texts, labels, right } = inputs;
  const { driver } = systemNamed(system);
  const paths = { predictor: predictor ?? 'none', trace: traces.get(scenario.data)! };
  const { arrivals } = scenario;
  return {
    system,
    flags: {
      model: prepared.pack,
      memoryBudget: `${scenario.share * 100}%`,
      lookahead: String(scenario.lookahead),
      threads: String(threads),
      maxBatchTokens: String(model.maxBatchTokens),
      ...LINKS[scenario.link].flags,
      ...(driver === 'threads' && systemFlags(system, paths)),
    },
    ...prepared,
    texts,
    labels,
    right,
    warmUp: warmUpOf(model, cell, inputs),
    batch: scenario.batch,
    ...(system === 'static-hot' && { hot: hot.get(scenario.data)! }),
    ...(arrivals !== undefined && {
      arrivals: {
        perSecond: arrivals,
        requests: Math.max(20, Math.ceil(arrivals * sizes.restSeconds)),
        seed,
      },
    }),
  };
}

/** What a cell was measured with: results of another are measured again. */
export function specOf(
  { scenario }: Cell,
  { texts, warmUp, flags, fingerprint, arrivals }: CellWork,
  bench: ModelBench,
  { threads, seed }: Settings,
): CellSpec {
  return {
    sentences: texts.length,
    warmUp: warmUp.length,
    lookahead: Number(flags.lookahead),
    threads,
    seed,
    inputs: shortHash(
      fingerprint,
      basename(flags.predictor ?? ''),
      bench.inputs.get(scenario.data)!.template,
      ...texts,
      ...warmUp,
    ),
    ...(arrivals !== undefined && { requests: arrivals.requests }),
  };
}
