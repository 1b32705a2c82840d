/** Trains a predictor directory from traces: networks, token table and training curve. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from '../../files/make-directory.js';
import { writeWholeFile } from '../../files/whole-file.js';
import { hitRanks } from '../../forecast/hit-ranks.js';
import { loadAddon } from '../../native/addon.js';
import type { NativeAddon, Predictor, TokenEmbedding } from '../../native/addon-types.js';
import { tableK } from '../../protocol/hash-table.js';
import { NETWORK_NAMES, type NetworkName } from '../../protocol/predictor-messages.js';
import { EMBEDDING } from '../../trace/embedding.js';
import { readMeta, type TraceIndex } from '../../trace/trace-file.js';
import { NetworkFunction } from '../functions/network.js';
import { expertsOfStack, type HashFunction, namedExperts } from '../hash-function.js';
import { HitCounts } from '../hit-counts.js';
import { TOKEN_TABLE } from '../predictor-directory.js';
import { evaluationBatches } from './batches.js';
import { Corpus, cannotRun } from './corpus.js';
import { findManifest, type LayerHitShares, MANIFEST, type PredictorManifest } from './manifest.js';
import type { NetworkState } from './network-state.js';
import { EVALUATION_LIMITS, type TrainingEvents, trainNetwork } from './network-training.js';
import { PARTS, type TrainingOptions } from './options.js';
import { OutputDirectory, type RunIdentity } from './output-directory.js';
import { fitSharpness, type Sharpness } from './sharpness.js';
import { sampleTokens, splitHeldOut } from './split.js';
import { TokenTableLearner } from './token-table-learning.js';

/** The measurements of a kind's training, one per row. */
const CURVE = 'training.csv';
/** Tokens of an evaluation during training. The final measurement uses everything held out. */
const MEASURED_TOKENS = 50_000;
/** Tokens that one number per layer is fitted on. They bound the memory for logits. */
const FITTED_TOKENS = 8192;
/** Share of the sequences held out if no traces are. */
const HELD_OUT_SHARE = 0.02;

interface TrainRequest {
  /** Trace directories to learn from. */
  traces: readonly string[];
  /** Trace directories to measure on; empty: a share of `traces` is held out. */
  heldOut: readonly string[];
  /** The kind of network. */
  network: NetworkName;
  options: TrainingOptions;
  threads: number;
}

interface TrainEvents extends TrainingEvents {
  /** Called once the networks are trained. From then on nothing is saved before the end. */
  onTrained?: () => void;
}

interface TrainResult {
  manifest: PredictorManifest;
  /** Whether the same run had ended before, so that nothing was left to do. */
  endedBefore: boolean;
}

/** A run with its inputs open. */
interface Run extends Omit<TrainRequest, 'traces' | 'heldOut'> {
  addon: NativeAddon;
  corpus: Corpus;
  /** The traces that it learns from. */
  traces: readonly TraceIndex[];
  /** Sequences of the corpus. */
  train: Int32Array;
  heldOut: Int32Array;
  embedding: TokenEmbedding;
  identity: RunIdentity;
}

/** The stacks whose networks a run has trained. */
type Trained = { stack: number; name: 'encoder' | 'decoder'; state: NetworkState }[];

/**
 * Trains into `out`, or resumes an earlier run of the same request. A predictor of the same traces in `out` gets this
 * kind of network beside its own. sida-predictor.json is written last: a directory without it is not a predictor.
 */
export async function trainPredictor(
  request: TrainRequest,
  out: string,
  events: TrainEvents = {},
): Promise<TrainResult> {
  const run = await openRun(request);
  try {
    const output = await OutputDirectory.claim(out, run.identity);
    if (output.finished) return { manifest: findManifest(out)!, endedBefore: true };
    try {
      const trained: Trained = [];
      for (const [stack, { name, layers }] of run.corpus.shape.stacks.entries()) {
        if (layers === 0) continue;
        const directory = await output.stateOf(name);
        trained.push({ stack, name, state: await runNetwork(run, stack, directory, events) });
      }
      events.onTrained?.();
      return { manifest: await publish(run, output, trained), endedBefore: false };
    } finally {
      output.release();
    }
  } finally {
    run.corpus.close();
  }
}

async function openRun(request: TrainRequest): Promise<Run> {
  const { traces, heldOut, network, options } = request;
  const both = traces.find((trace) => heldOut.includes(trace));
  if (both !== undefined) throw cannotRun(`${both} is to be trained on and held out at once`);
  const addon = loadAddon();
  const embedding = await loadEmbedding(addon, traces);
  const corpus = await Corpus.open([...traces, ...heldOut], embedding.vocab);
  const { experts, topK } = corpus.shape;
  const own = {
    ...options,
    top: Math.max(topK, Math.min(options.top, experts, corpus.top)),
    sharpness: topK === 1 ? options.sharpness : 1,
  };
  const learned = corpus.traces.slice(0, traces.length);
  const numbers = (from: number, to: number) => Int32Array.from({ length: to - from }, (_, i) => from + i);
  const [first, end] = [corpus.starts[traces.length]!, corpus.starts.at(-1)!];
  const split =
    heldOut.length > 0
      ? { train: numbers(0, first), heldOut: numbers(first, end) }
      : splitHeldOut(first, HELD_OUT_SHARE, options.seed);
  const data = {
    model: learned[0]!.meta.model.weights,
    traces: learned.map(describe),
    heldOut: heldOut.length > 0 ? corpus.traces.slice(traces.length).map(describe) : options.seed,
  };
  const identity = { network, data, ...own, ...PARTS[network] };
  return { ...request, addon, corpus, traces: learned, ...split, embedding, options: own, identity };
}

async function loadEmbedding(addon: NativeAddon, traces: readonly string[]): Promise<TokenEmbedding> {
  // A directory that is no trace has another error than a trace without the file.
  for (const trace of traces) await readMeta(trace);
  const directory = traces.find((path) => existsSync(join(path, EMBEDDING)));
  if (directory !== undefined) return new addon.TokenEmbedding({ file: join(directory, EMBEDDING) });
  throw cannotRun(
    `${traces[0]} has no ${EMBEDDING}: start its \`sida trace\` again, which adds it and keeps the records`,
  );
}

function describe({ meta: { data, template, maxNewTokens }, records, lengths }: TraceIndex) {
  // Files of one name may hold other texts, which most often have other lengths.
  const hash = createHash('sha256').update(JSON.stringify(lengths)).digest('hex').slice(0, 16);
  return { data, template, maxNewTokens, records, lengths: hash };
}

/** The sequences that have tokens in the stack. Throws cannot_run if there are none. */
function withTokens({ corpus }: Run, sequences: Int32Array, stack: number): Int32Array {
  const found = sequences.filter((sequence) => corpus.length(sequence, stack) > 0);
  if (found.length > 0) return found;
  const { name } = corpus.shape.stacks[stack]!;
  throw cannotRun(
    `None of ${sequences.length} sequences has ${name} tokens to learn from or to measure on; more lines are needed`,
  );
}

/** Trains the network of a stack and keeps its state in `directory`. */
function runNetwork(run: Run, stack: number, directory: string, events: TrainEvents): Promise<NetworkState> {
  const { addon, corpus, network, options, threads, embedding } = run;
  const { layers, causal, crosses } = corpus.shape.stacks[stack]!;
  const lengthOf = (sequence: number) => corpus.length(sequence, stack);
  const heldOut = withTokens(run, run.heldOut, stack);
  const job = {
    run: run.identity,
    stack,
    shape: {
      ...{ dIn: embedding.dModel, hidden: options.hidden, layers, experts: corpus.shape.experts },
      ...{ causal, summary: crosses, bidirectional: false, ...PARTS[network] },
    },
    corpus,
    train: withTokens(run, run.train, stack),
    heldOut: sampleTokens(heldOut, lengthOf, MEASURED_TOKENS, options.seed),
    ...{ options, threads, embedding, directory },
  };
  return trainNetwork(addon, job, events);
}

async function publish(run: Run, output: OutputDirectory, trained: Trained): Promise<PredictorManifest> {
  const { corpus, network } = run;
  const out = output.path;
  const folder = join(out, network);
  makeDirectory(folder);
  for (const { name, state } of trained) {
    const copy = join(folder, `${name}.tmp`);
    await rm(copy, { recursive: true, force: true });
    await cp(join(await output.stateOf(name), state.best!), copy, { recursive: true });
    await rm(join(folder, name), { recursive: true, force: true });
    await rename(copy, join(folder, name));
  }
  await writeWholeFile(join(folder, CURVE), curveOf(trained, corpus.shape.topK));
  const { meta } = corpus.traces[0]!;
  const before = findManifest(out);
  const { sharpness, heldOut } = learnAndMeasure(run, out, trained);
  const networks = {
    ...before?.networks,
    [network]: {
      sharpness,
      options: { ...run.options, ...PARTS[network] },
      training: trained.map(({ name, state: { step, epoch, evaluations } }) => {
        const bestStep = evaluations.findLast(({ best }) => best)!.step;
        return { stack: name, steps: step, epochs: epoch, bestStep };
      }),
      run: run.identity,
    },
  };
  const measured: PredictorManifest['heldOut'] = { ...before?.heldOut, ...heldOut };
  const manifest: PredictorManifest = {
    format: 'sida-predictor',
    version: 2,
    model: meta.model,
    layers: meta.layers,
    experts: meta.experts,
    topK: meta.topK,
    vocab: corpus.shape.vocab,
    trainedOn: run.traces.map(({ meta: { data, template, maxNewTokens, joins }, records, lengths }) => ({
      ...{ data, template, maxNewTokens, ...(joins && { joins }), sequences: records },
      tokens: lengths.flat().reduce((sum, length) => sum + length, 0),
    })),
    default: NETWORK_NAMES.find((name) => networks[name] !== undefined)!,
    networks,
    heldOut: Object.fromEntries(
      [...NETWORK_NAMES, 'token'].flatMap((name) => (measured[name] ? [[name, measured[name]]] : [])),
    ),
  };
  await writeWholeFile(join(out, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`);
  await output.removeState();
  return manifest;
}

/** The training curve as CSV: one row per evaluation. */
function curveOf(trained: Trained, topK: number): string {
  const hits = hitRanks(topK).map((rank) => `hits_${rank}`);
  const head = ['stack', 'step', 'epoch', 'seconds', 'learning_rate', 'loss', ...hits];
  const rows = trained.flatMap(({ name, state }) =>
    state.evaluations.map(({ step, epoch, seconds, learningRate, train, heldOut }) => [
      ...[name, step, epoch, seconds, learningRate],
      ...[train?.loss ?? '', ...(train?.hits ?? hits.map(() => ''))],
      ...[heldOut.loss, ...heldOut.hits],
    ]),
  );
  const held = ['loss', ...hits].map((name) => `held_out_${name}`);
  return [[...head, ...held], ...rows].map((row) => `${row.join()}\n`).join('');
}

/** Learns the token table and writes it to `out`, beside the networks. Measures both on everything held out. */
function learnAndMeasure(run: Run, out: string, trained: Trained) {
  const { addon, corpus, embedding, network: kind, threads } = run;
  const { shape } = corpus;
  const learner = new TokenTableLearner(shape);
  for (const sequence of run.train) learner.add(corpus.record(sequence));
  const table = learner.finish();
  table.save(join(out, TOKEN_TABLE));
  const sharpness: Partial<Record<'encoder' | 'decoder', Sharpness>> = {};
  const networks: (Predictor | null)[] = shape.stacks.map(() => null);
  for (const { stack, name } of trained) {
    const directory = join(out, kind, name);
    const layerExperts = Uint16Array.from(expertsOfStack(shape, stack));
    const network = new addon.Predictor({ directory, embedding, threads, choices: shape.topK, layerExperts });
    networks[stack] = network;
    const lengthOf = (sequence: number) => corpus.length(sequence, stack);
    const sample = sampleTokens(run.heldOut, lengthOf, FITTED_TOKENS, 0);
    sharpness[name] = fitSharpness(
      network,
      corpus.batch(sample, stack, corpus.top),
      shape.topK,
      layerExperts,
    );
  }
  const ours = new NetworkFunction(kind, shape, networks);
  const heldOut = { [kind]: hitsOf(ours, run), token: hitsOf(table, run) };
  ours.close();
  return { sharpness, heldOut };
}

/** Hits of the layers that the function predicts. The sharpness does not change them. */
function hitsOf(hash: HashFunction, { corpus, heldOut }: Run): LayerHitShares[] {
  const { shape } = corpus;
  const counts = new HitCounts(shape);
  for (const [stack, { layers }] of shape.stacks.entries()) {
    const own = heldOut.filter((sequence) => corpus.length(sequence, stack) > 0);
    const lengths = own.map((sequence) => corpus.length(sequence, stack));
    for (const places of evaluationBatches(lengths, EVALUATION_LIMITS)) {
      const sequences = places.map((place) => own[place]!);
      const input = corpus.batch(sequences, stack, shape.topK);
      const named = namedExperts(layers * input.tokens.length, tableK(shape));
      counts.add(stack, hash.fill(stack, input, named) ? named : null, input, input.tokens.length);
    }
  }
  return counts.result().flatMap(({ tokens, hits, unknown }, i) => {
    return tokens > unknown ? [{ layer: corpus.traces[0]!.meta.layers[i]!, tokens, hits }] : [];
  });
}
