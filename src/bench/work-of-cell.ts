/** From a cell and what its model has ready to the work of the process that measures it. */
import { basename } from 'node:path';
import type { CellWork } from './cell-work.js';
import { type Gpu, gpuIdentity } from './gpu.js';
import { LINKS } from './links.js';
import type { ModelBench } from './model-bench.js';
import type { BenchModel } from './models.js';
import { MINI_DIRECTORY, shortHash } from './prepare.js';
import type { CellSpec } from './result.js';
import type { Cell } from './scenarios.js';
import { type Sizes, warmUpOf } from './sizes.js';
import { systemFlags, systemNamed } from './systems.js';

interface Settings {
  gpu?: Gpu;
  sizes: Sizes;
  threads: number;
  seed: number;
}

/** transformers may need seconds for a batch whose layers it fetches. */
const PEER_SECONDS = 12;

/**
 * Random weights are made on the GPU, of the same shape and distribution: bringing there a checkpoint of 29 GB is no
 * part of what is compared.
 */
function peerModel({ weights, shape }: BenchModel): NonNullable<CellWork['peer']> {
  return weights === 'trained' ? { checkpoint: MINI_DIRECTORY } : { shape };
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
      // Host memory in front of a device that holds everything would only be page-locked.
      ...(scenario.link === 'host' && scenario.share === 1 && { hostBudget: '0' }),
      ...(scenario.device !== undefined && { device: scenario.device }),
      ...(driver === 'threads' && systemFlags(system, paths)),
    },
    ...prepared,
    texts,
    labels,
    right,
    warmUp: warmUpOf(model, cell, inputs),
    batch: scenario.batch,
    ...(system === 'static-hot' && { hot: hot.get(scenario.data)! }),
    ...(driver === 'gpu-peer' && { peer: peerModel(model), peerSeconds: PEER_SECONDS }),
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
  { threads, seed, gpu }: Settings,
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
    ...(scenario.device === 'cuda' && gpu !== undefined && { gpu: gpuIdentity(gpu) }),
  };
}
