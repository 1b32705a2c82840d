/** Grid search: short training runs of one network, each with its held-out hit rates and its cost. */
import { join } from 'node:path';
import { UsageError } from '../../config/resolve.js';
import { writeWholeFile } from '../../files/whole-file.js';
import { loadAddon } from '../../native/addon.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import { hitNames } from '../hit-ranks.js';
import type { Evaluation } from './network-state.js';
import type { TrainingEvents } from './network-training.js';
import {
  optionNames,
  resolveTrainingOptions,
  TRAINING_OPTIONS,
  type TrainingOptionName,
  type TrainingOptions,
} from './options.js';
import { OutputDirectory, type RunIdentity, saving } from './output-directory.js';
import { openSetup, type TrainingSetup, type TrainRequest } from './setup.js';
import { runNetwork } from './train-predictor.js';

/** The options that most often make a difference; the search takes about a quarter of an hour. */
export const DEFAULT_GRIDS: Record<NetworkName, string> = {
  lstm: 'layers=1,2 hidden=64,128,256',
  attention: 'blocks=1,2 hidden=64,128,192',
};
/** Time limit of each candidate, unless the user gives another. */
const DEFAULT_MINUTES = '2';
/** Least tokens over which the forward time is measured. */
const TIMED_TOKENS = 4096;
const TIMED_RUNS = 5;

type Given = Partial<Record<TrainingOptionName, string>>;

interface Candidate {
  /** The options that the grid varies, as text. */
  varied: Given;
  options: TrainingOptions;
}

export interface CandidateResult {
  varied: Given;
  steps: number;
  minutes: number;
  /** At the best evaluation: mean over the network's layers, for each rank of hitRanks(). */
  hits: number[];
  /** Names of the first and the last rank. */
  named: [first: string, last: string];
  loss: number;
  /** Forward time of single sequences on one thread, best of several runs. */
  microsecondsPerToken: number;
  /** Memory of the network at inference. */
  bytes: number;
}

/** Expands `hidden=64,128 lr=1e-3` to every combination; the last option varies fastest. */
export function candidatesOf(grid: string, network: NetworkName, given: Given): Candidate[] {
  const names = optionNames(network);
  let combinations: Given[] = [{}];
  for (const part of grid.split(/\s+/).filter(Boolean)) {
    const [flag, list = ''] = part.split('=', 2);
    const name = names.find((candidate) => TRAINING_OPTIONS[candidate].flag === flag);
    const values = list.split(',').filter(Boolean);
    if (name === undefined || values.length === 0) {
      throw new UsageError(
        `Expected --grid to be of <option>=<value>,<value>…, found ${JSON.stringify(part)}; options are ${names.map((known) => TRAINING_OPTIONS[known].flag).join(', ')}`,
      );
    }
    combinations = combinations.flatMap((one) => values.map((value) => ({ ...one, [name]: value })));
  }
  if (grid.trim() === '') throw new UsageError('Expected --grid to name an option at least');
  return combinations.map((varied) => ({
    varied,
    options: resolveTrainingOptions(network, { maxMinutes: DEFAULT_MINUTES, ...given, ...varied }),
  }));
}

/** Measures a trained network on one thread, one sequence per call: microseconds per token, and bytes. */
function cost(setup: TrainingSetup, stack: number, directory: string): { micros: number; bytes: number } {
  const { corpus, sequences } = setup.heldOut;
  const predictor = new (loadAddon().Predictor)({ directory, embedding: setup.embedding, threads: 1 });
  try {
    let micros = Number.POSITIVE_INFINITY;
    for (let run = 0; run < TIMED_RUNS; run++) {
      let [tokens, ms] = [0, 0];
      for (let i = 0; i < sequences.length && tokens < TIMED_TOKENS; i++) {
        const batch = corpus.batch(sequences.subarray(i, i + 1), stack, 1);
        if (batch.tokens.length === 0) continue;
        const rows = batch.tokens.length * predictor.shape.layers;
        const [experts, alpha] = [new Uint16Array(rows), new Float32Array(rows)];
        const start = performance.now();
        predictor.predict(batch, 1, experts, alpha);
        ms += performance.now() - start;
        tokens += batch.tokens.length;
      }
      micros = Math.min(micros, (1000 * ms) / tokens);
    }
    return { micros, bytes: predictor.bytes };
  } finally {
    predictor.close();
  }
}

export interface SearchEvents extends TrainingEvents {
  onCandidate?: (candidate: Candidate, number: number) => void;
}

/**
 * Trains the network of each candidate in a subdirectory of `out`. The network is that of the first stack, unless the
 * request names another. Each run can resume. Returns the results in grid order and writes them to search.json.
 */
export async function searchOptions(
  request: Omit<TrainRequest, 'options'>,
  candidates: readonly Candidate[],
  out: string,
  events: SearchEvents = {},
): Promise<CandidateResult[]> {
  const results: CandidateResult[] = [];
  for (const [i, { varied, options }] of candidates.entries()) {
    const full: TrainRequest = { ...request, options };
    const setup = await openSetup(loadAddon(), full, 1);
    const stack = setup.stacks[0]!;
    const network = setup.train.corpus.stacks[stack]!;
    try {
      events.onCandidate?.(candidates[i]!, i);
      const identity: RunIdentity = { ...setup.identity, search: true };
      const output = await OutputDirectory.claim(join(out, `candidate-${i}`), identity);
      try {
        const directory = await output.stateOf(network);
        const state = await runNetwork(loadAddon(), setup, full, stack, directory, events);
        const best = state.evaluations.findLast((evaluation) => evaluation.best) as Evaluation;
        const { micros, bytes } = cost(setup, stack, join(directory, state.best!));
        results.push({
          varied,
          steps: state.step,
          minutes: state.seconds / 60,
          hits: best.heldOut.hits,
          named: hitNames(setup.topK),
          loss: best.heldOut.loss,
          microsecondsPerToken: micros,
          bytes,
        });
      } finally {
        await output.release();
      }
    } finally {
      setup.close();
    }
  }
  const json = `${JSON.stringify(results, null, 1)}\n`;
  await saving(out, json.length, () => writeWholeFile(join(out, 'search.json'), json));
  return results;
}
