/** Makes the work of the process that takes a measurement, from the measurement and its prepared model. */
import { basename } from 'node:path';
import { shortHash } from '../preparation/prepare.js';
import { warmUpOf } from '../preparation/sizes.js';
import { LINKS } from '../scenarios/links.js';
import { MAX_BATCH_TOKENS } from '../scenarios/models.js';
import type { Measurement } from '../scenarios/scenarios.js';
import { systemFlags, systemNamed } from '../scenarios/systems.js';
import type { MeasurementWork } from '../systems/work.js';
import { type Gpu, gpuIdentity } from './gpu.js';
import type { ModelBench } from './model-bench.js';
import type { MeasurementSpec } from './result.js';

interface Settings {
  gpu?: Gpu;
  threads: number;
}

/** The work of a measurement's process. */
export function workOf(
  measurement: Measurement,
  bench: ModelBench,
  { threads }: Pick<Settings, 'threads'>,
): MeasurementWork {
  const { scenario, system } = measurement;
  const { model, prepared, traces, predictor } = bench;
  const inputs = bench.inputs.get(scenario.data)!;
  const { texts, labels } = inputs;
  const { driver, exact } = systemNamed(system);
  const needs = driver === 'threads' && exact && scenario.batch === 1 && bench.needs.get(scenario.data);
  const paths = { predictor: predictor ?? 'none', trace: traces.get(scenario.data)! };
  return {
    system,
    flags: {
      model: prepared.pack,
      memoryBudget: `${scenario.share * 100}%`,
      threads: String(threads),
      maxBatchTokens: String(MAX_BATCH_TOKENS),
      ...LINKS[scenario.link].flags,
      // Host memory in front of a device that holds everything would only be page-locked.
      ...(scenario.link === 'host' && scenario.share === 1 && { hostBudget: '0' }),
      ...(scenario.device !== undefined && { device: scenario.device }),
      ...(driver === 'threads' && systemFlags(system, paths)),
    },
    ...prepared,
    texts,
    labels,
    warmUp: warmUpOf(model, measurement, inputs),
    batch: scenario.batch,
    ...(needs && { needs }),
  };
}

/** The spec of a measurement: results with another one are measured again. */
export function specOf(
  { scenario }: Measurement,
  { texts, warmUp, flags, fingerprint }: MeasurementWork,
  bench: ModelBench,
  { threads, gpu }: Settings,
): MeasurementSpec {
  return {
    sentences: texts.length,
    warmUp: warmUp.length,
    threads,
    inputs: shortHash(
      fingerprint,
      basename(flags.predictor ?? ''),
      bench.inputs.get(scenario.data)!.template,
      ...texts,
      ...warmUp,
    ),
    ...(scenario.device === 'cuda' && gpu !== undefined && { gpu: gpuIdentity(gpu) }),
  };
}
