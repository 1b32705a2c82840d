/** The state that resumes a network's training: weights, optimizer, position in the data, and measurements. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { readJsonFile } from '../../files/json-file.js';
import { makeDirectory } from '../../files/make-directory.js';
import { writeWholeFile } from '../../files/whole-file.js';
import type { PredictorTrainer, TrainingReport } from '../../native/addon-types.js';
import { cannotRun } from './corpus.js';
import { difference, type RunIdentity } from './output-directory.js';

const STATE = 'state.json';

/** Means per token and layer. */
export interface Measures {
  /** Distillation + λ · cross-entropy. */
  loss: number;
  /** Share of the routers' choices among the first predicted experts, for each rank of hitRanks(). */
  hits: number[];
}

/** Sums of training reports. They survive JSON exactly. */
export interface Sums {
  tokens: number;
  loss: number;
  /** Summed over layers. */
  choices: number;
  hits: number[];
}

export const NOTHING: Sums = { tokens: 0, loss: 0, choices: 0, hits: [] };

/** Leaves out a report whose loss is not finite. */
export function sumOf(sums: Sums, { loss, layers }: TrainingReport, topK: number): Sums {
  const tokens = layers[0]?.tokens ?? 0;
  if (tokens === 0 || !Number.isFinite(loss)) return sums;
  const total = (rank: number) => layers.reduce((sum, { hits }) => sum + hits[rank]!, 0);
  return {
    tokens: sums.tokens + tokens,
    loss: sums.loss + loss * tokens,
    choices: sums.choices + tokens * layers.length * topK,
    hits: layers[0]!.hits.map((_, rank) => (sums.hits[rank] ?? 0) + total(rank)),
  };
}

/** Undefined if nothing was summed. */
export function meansOf({ tokens, loss, choices, hits }: Sums): Measures | undefined {
  return tokens === 0 ? undefined : { loss: loss / tokens, hits: hits.map((count) => count / choices) };
}

/** One measurement on held-out sequences. */
export interface Evaluation {
  step: number;
  /** Passes over the data, with the fraction of the current one. */
  epoch: number;
  /** Time spent on training and evaluation so far. */
  seconds: number;
  learningRate: number;
  /** Means of the steps since the last evaluation; absent if none was finite. */
  train?: Measures;
  heldOut: Measures;
  best: boolean;
}

export interface NetworkState {
  run: RunIdentity;
  /** Position of the next batch. */
  epoch: number;
  batch: number;
  step: number;
  seconds: number;
  /** Consecutive steps that changed no weights because a number was not finite. */
  refused: number;
  running: Sums;
  evaluations: Evaluation[];
  /** Names of weight directories beside the state; null before the first save. */
  last: string | null;
  best: string | null;
}

/** Throws cannot_run if the directory holds the state of another run. */
export function loadState(directory: string, run: RunIdentity): NetworkState {
  // Only this program writes the file, so its fields are not checked.
  const state = readJsonFile(directory, STATE, z.custom<NetworkState>(), {
    code: 'cannot_run',
    mostValues: 1e6,
  });
  if (state === undefined) {
    const begin = { epoch: 0, batch: 0, step: 0, seconds: 0, refused: 0, running: NOTHING };
    return { run, ...begin, evaluations: [], last: null, best: null };
  }
  if (isDeepStrictEqual(state.run, run)) return state;
  throw cannotRun(
    `${directory} holds the state of another run: ${difference(state.run, run)}; start that one again, name another --out, or remove it`,
  );
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
  const write = async (name: string, withOptimizer: boolean) => {
    makeDirectory(join(directory, name));
    trainer.save(join(directory, name), withOptimizer);
    return name;
  };
  state.last = await write(`last-${state.step}`, true);
  if (isBest) state.best = await write(`best-${state.step}`, false);
  await writeWholeFile(join(directory, STATE), `${JSON.stringify(state)}\n`);
  for (const name of await readdir(directory)) {
    if (/^(last|best)-\d+$/.test(name) && name !== state.last && name !== state.best) {
      await rm(join(directory, name), { recursive: true, force: true });
    }
  }
}
