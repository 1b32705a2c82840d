/** The state that resumes a network's training: weights, optimizer, position in the data, and measurements. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../files/json-file.js';
import { writeWholeFile } from '../../files/whole-file.js';
import type { NetworkShape, PredictorTrainer } from '../../native/addon-types.js';
import type { StackName } from '../hash-function.js';
import type { Ending } from './manifest.js';
import { emptySums, type MeasureSums, type Measures } from './measures.js';
import { STATE, saving } from './output-directory.js';

/** One measurement on held-out sequences: a line of training.jsonl. */
export interface Evaluation {
  network: StackName;
  step: number;
  /** Passes over the data, with the fraction of the current one. */
  epoch: number;
  /** Time spent on training and evaluation so far. */
  seconds: number;
  learningRate: number;
  /** Mean of the steps since the last evaluation; absent if none was finite. */
  train?: Measures & { gradientNorm: number };
  heldOut: Measures;
  best: boolean;
  /** Whether the held-out loss had almost stopped improving: the learning rate falls here, or training ends. */
  plateau?: true;
}

export interface NetworkState {
  /** Position of the next batch. */
  epoch: number;
  batch: number;
  step: number;
  seconds: number;
  /** Consecutive steps that changed no weights because a number was not finite. */
  refused: number;
  running: MeasureSums;
  evaluations: Evaluation[];
  /** Names of weight directories beside the state; null before the first save. */
  last: string | null;
  best: string | null;
  ending: Ending | null;
}

function freshState(): NetworkState {
  return {
    epoch: 0,
    batch: 0,
    step: 0,
    seconds: 0,
    refused: 0,
    running: emptySums(),
    evaluations: [],
    last: null,
    best: null,
    ending: null,
  };
}

export async function loadState(directory: string): Promise<NetworkState> {
  // Only this program writes the file, so its fields are not checked.
  return (
    readJsonFile(directory, STATE, z.custom<NetworkState>(), { code: 'cannot_run', mostValues: 1e6 }) ??
    freshState()
  );
}

/** Approximate bytes of a save: weights and the optimizer's two moments, in float32. */
function bytesOf({ dIn, hidden, layers, experts, summary, blocks, lstmLayers }: NetworkShape): number {
  const weights =
    hidden * (dIn * (summary ? 2 : 1) + 1) +
    (blocks || lstmLayers) * hidden * (8 * hidden + 8) +
    hidden * (hidden + 1) +
    layers * experts * (hidden + 1);
  return 12 * weights;
}

/**
 * Saves weights and state. The rename of the state file commits the save. After a crash before the rename, the
 * previous save is still whole, because its weights are in directories of their own.
 */
export async function saveState(
  directory: string,
  state: NetworkState,
  trainer: PredictorTrainer,
  isBest: boolean,
): Promise<void> {
  await saving(directory, bytesOf(trainer.shape), async () => {
    const write = async (name: string, withOptimizer: boolean) => {
      await mkdir(join(directory, name), { recursive: true });
      trainer.save(join(directory, name), withOptimizer);
      return name;
    };
    const last = state.ending === null ? await write(`last-${state.step}`, true) : null;
    const best = isBest ? await write(`best-${state.step}`, false) : state.best;
    await writeWholeFile(join(directory, STATE), `${JSON.stringify({ ...state, last, best })}\n`);
    Object.assign(state, { last, best });
    for (const name of await readdir(directory)) {
      if (/^(last|best)-\d+$/.test(name) && name !== last && name !== best) {
        await rm(join(directory, name), { recursive: true, force: true });
      }
    }
  });
}
