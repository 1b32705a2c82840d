/** The token table and the hash graph of a run, and what all its hash functions are worth on held-out traces. */
import { join } from 'node:path';
import type { NativeAddon } from '../../native/addon-types.js';
import type { HashGraph } from '../functions/graph.js';
import { writeGraph } from '../functions/graph-file.js';
import { LstmFunction } from '../functions/lstm.js';
import type { TokenTable } from '../functions/token-table.js';
import type { HashFunction } from '../hash-function.js';
import { GRAPH, TOKEN_TABLE } from '../predictor-directory.js';
import { hitRates } from './hit-rates.js';
import { learnHashFunctions } from './learn-hash-functions.js';
import type { LayerHitShares } from './manifest.js';
import type { SequenceSet } from './network-training.js';
import { tuneRefiner } from './refiner-tuning.js';
import type { TrainingSetup } from './setup.js';
import { sampleTokens } from './split.js';
import { Teacher, type TeacherRecord, type TeacherSource } from './teacher.js';

export interface LearnedTables {
  table: TokenTable;
  graph: HashGraph;
}

/** Records that the strength of the graph over the network's tables is chosen on, in tokens. */
const TUNING_TOKENS = 32_768;

async function teacherOf({ corpus, sequences }: SequenceSet, vocab: number): Promise<TeacherSource> {
  const teacher = await Teacher.open(
    corpus.traces.map((trace) => trace.directory),
    vocab,
  );
  const wanted = new Set(sequences);
  return teacher.only((sequence) => wanted.has(sequence));
}

async function learnTables({ train, embedding }: TrainingSetup): Promise<LearnedTables> {
  return learnHashFunctions(await teacherOf(train, embedding.vocab));
}

async function tuningRecords({ heldOut, embedding }: TrainingSetup): Promise<TeacherRecord[]> {
  const { corpus } = heldOut;
  const length = (sequence: number) =>
    corpus.length(sequence, 'encoder') + corpus.length(sequence, 'decoder');
  const sequences = sampleTokens(heldOut.sequences, length, TUNING_TOKENS, 0);
  const records: TeacherRecord[] = [];
  for await (const record of (await teacherOf({ corpus, sequences }, embedding.vocab)).records()) {
    records.push(record);
  }
  return records;
}

async function sharesOf(hash: HashFunction, teacher: TeacherSource): Promise<LayerHitShares[]> {
  const layers = await hitRates(hash, teacher);
  // A network of one stack says nothing of the other.
  return layers
    .filter(({ tokens, unknown }) => tokens > unknown)
    .map(({ layer, tokens, hits }) => ({
      layer,
      tokens,
      hits: hits.map((count) => count / tokens) as [number, number, number],
    }));
}

/**
 * Learns the tables from the training sequences, writes them beside the networks of `directory`, and measures all
 * of them on everything held out.
 */
export async function learnAndMeasure(
  addon: NativeAddon,
  setup: TrainingSetup,
  directory: string,
  threads: number,
  onPhase: (text: string) => void,
): Promise<Record<string, LayerHitShares[]>> {
  onPhase('Learning the token table and the hash graph');
  const { table, graph } = await learnTables(setup);
  const { embedding } = setup;
  const network = (stack: string) =>
    new addon.Predictor({ directory: join(directory, stack), embedding, threads });
  const lstm = new LstmFunction(
    table.shape,
    Object.fromEntries(setup.stacks.map((stack) => [stack, network(stack)])),
  );
  try {
    graph.refiners.set('lstm', tuneRefiner(graph, lstm, await tuningRecords(setup)));
    table.save(join(directory, TOKEN_TABLE));
    writeGraph(join(directory, GRAPH), graph);
    onPhase(`Measuring on ${setup.heldOut.sequences.length} held-out sequences`);
    const teacher = await teacherOf(setup.heldOut, embedding.vocab);
    return {
      lstm: await sharesOf(lstm, teacher),
      token: await sharesOf(table, teacher),
      graph: await sharesOf(graph.hashFunction(table), teacher),
    };
  } finally {
    lstm.close();
  }
}
