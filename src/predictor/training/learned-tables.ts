/** Learns the token table of a run, and measures it and the run's networks on held-out traces. */
import { join } from 'node:path';
import type { NativeAddon, Predictor } from '../../native/addon-types.js';
import { NetworkFunction } from '../functions/network.js';
import type { TokenTable } from '../functions/token-table.js';
import type { HashFunction, StackName } from '../hash-function.js';
import { sharpnessOptions, TOKEN_TABLE } from '../predictor-directory.js';
import { Teacher, type TeacherRecord, type TeacherSource } from '../teacher.js';
import { hitRates } from './hit-rates.js';
import { learnTokenTable } from './learn-token-table.js';
import type { LayerHitShares, NetworkEntry, PredictorManifest } from './manifest.js';
import type { SequenceSet } from './network-training.js';
import type { TrainingSetup, TrainRequest } from './setup.js';
import { fitSharpness, type Sharpness } from './sharpness.js';
import { sampleTokens } from './split.js';

export interface TableEvents {
  signal?: AbortSignal;
  /** Called with the number of sequences that the table has learned from so far. */
  onLearning?: (done: number, total: number) => void;
  /** Called with the name of each phase after learning. */
  onPhase?: (text: string) => void;
}

type NetworkSharpness = NonNullable<NetworkEntry['sharpness']>;

/** Most tokens of the records that the networks' sharpness is fitted on, approximately. */
const TUNING_TOKENS = 32_768;

async function teacherOf({ corpus, sequences }: SequenceSet, vocab: number): Promise<TeacherSource> {
  const teacher = await Teacher.open(
    corpus.traces.map((trace) => trace.directory),
    vocab,
  );
  const wanted = new Set(sequences);
  return teacher.only((sequence) => wanted.has(sequence));
}

async function learnTable(
  { train, embedding }: TrainingSetup,
  { signal, onLearning }: TableEvents,
): Promise<TokenTable> {
  let done = 0;
  return learnTokenTable(await teacherOf(train, embedding.vocab), () => {
    signal?.throwIfAborted();
    onLearning?.(++done, train.sequences.length);
  });
}

async function tuningRecords({ heldOut, embedding }: TrainingSetup): Promise<TeacherRecord[]> {
  const { corpus } = heldOut;
  const length = (sequence: number) =>
    corpus.stacks.reduce((sum, _, stack) => sum + corpus.length(sequence, stack), 0);
  const sequences = sampleTokens(heldOut.sequences, length, TUNING_TOKENS, 0);
  const records: TeacherRecord[] = [];
  for await (const record of (await teacherOf({ corpus, sequences }, embedding.vocab)).records()) {
    records.push(record);
  }
  return records;
}

async function sharesOf(hash: HashFunction, teacher: TeacherSource): Promise<LayerHitShares[]> {
  const layers = await hitRates(hash, teacher);
  // Leave out the layers of a stack without a network.
  return layers
    .filter(({ tokens, unknown }) => tokens > unknown)
    .map(({ layer, tokens, hits }) => ({
      layer,
      tokens,
      hits: hits.map((count) => count / (tokens * teacher.shape.topK)),
    }));
}

/**
 * Learns the token table from the training sequences and writes it to `directory`, beside the networks. Measures the
 * table and the networks on all held-out sequences.
 */
export async function learnAndMeasure(
  addon: NativeAddon,
  setup: TrainingSetup,
  directory: string,
  { network: kind, threads }: Pick<TrainRequest, 'network' | 'threads'>,
  events: TableEvents,
): Promise<Pick<PredictorManifest, 'heldOut'> & { sharpness: NetworkSharpness }> {
  const table = await learnTable(setup, events);
  const { embedding, stacks } = setup;
  const records = await tuningRecords(setup);
  const { shape } = table;
  const open = (name: StackName, sharpness?: Sharpness) =>
    new addon.Predictor({
      directory: join(directory, kind, name),
      embedding,
      threads,
      choices: shape.topK,
      ...(sharpness && sharpnessOptions(sharpness)),
    });
  const sharpness: NetworkSharpness = {};
  const networks: (Predictor | null)[] = shape.stacks.map(() => null);
  for (const stack of stacks) {
    const { name } = shape.stacks[stack]!;
    const network = open(name);
    const fitted = fitSharpness(network, stack, records, shape);
    network.close();
    sharpness[name] = fitted;
    networks[stack] = open(name, fitted);
  }
  const trained = new NetworkFunction(kind, shape, networks);
  try {
    table.save(join(directory, TOKEN_TABLE));
    events.onPhase?.(`Measuring on ${setup.heldOut.sequences.length} held-out sequences`);
    const teacher = await teacherOf(setup.heldOut, embedding.vocab);
    const heldOut = {
      [kind]: await sharesOf(trained, teacher),
      token: await sharesOf(table, teacher),
    };
    return { heldOut, sharpness };
  } finally {
    trained.close();
  }
}
