/** Opens the inputs of a run and checks that they fit together, before anything is written. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SidaError } from '../../errors.js';
import type { NativeAddon, TokenEmbedding } from '../../native/addon-types.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import { EMBEDDING } from '../../trace/embedding.js';
import type { StackName } from '../hash-function.js';
import { Corpus, checkSameModel } from './corpus.js';
import type { SequenceSet } from './network-training.js';
import { fittedOptions, ownOptions, type TrainingOptions } from './options.js';
import type { RunIdentity } from './output-directory.js';
import { splitHeldOut } from './split.js';

export interface TrainRequest {
  /** Trace directories to learn from. */
  traces: readonly string[];
  /** Trace directories to measure on; empty: a share of `traces` is held out. */
  heldOut: readonly string[];
  /** The kind of network. */
  network: NetworkName;
  options: TrainingOptions;
  /** Trains only the network of this stack. */
  only?: StackName;
  threads: number;
}

export interface TrainingSetup {
  train: SequenceSet;
  heldOut: SequenceSet;
  embedding: TokenEmbedding;
  /** Indices of the stacks whose networks are trained. These stacks have MoE layers. */
  stacks: number[];
  /** The kind of network. */
  network: NetworkName;
  /** The request's options, with values that depend on the model filled in. */
  options: TrainingOptions;
  /** Experts that the model's routers choose for a token. */
  topK: number;
  /** Experts per token in each batch. */
  top: number;
  identity: RunIdentity;
  close(): void;
}

function cannotRun(message: string): SidaError {
  return new SidaError({ code: 'cannot_run', message });
}

/** Experts per token that training needs. Throws cannot_run if a trace recorded fewer. */
function topOf(options: TrainingOptions, corpora: readonly Corpus[]): number {
  const { experts, topK } = corpora[0]!.traces[0]!.meta;
  const distilled = options.distillation === 'none' ? 0 : options.top;
  const wanted = Math.min(experts, Math.max(distilled, options.k, topK));
  for (const trace of corpora.flatMap((corpus) => corpus.traces)) {
    if (trace.meta.top < wanted) {
      throw cannotRun(
        `--top ${options.top} and --k ${options.k} need the best ${wanted} experts of each token, ${trace.directory} holds ${trace.meta.top} of ${experts}: take --top ${trace.meta.top}, or trace again with --top ${wanted}`,
      );
    }
  }
  return wanted;
}

function loadEmbedding(addon: NativeAddon, corpus: Corpus): TokenEmbedding {
  const directory = corpus.traces
    .map((trace) => trace.directory)
    .find((path) => existsSync(join(path, EMBEDDING)));
  if (directory !== undefined) return new addon.TokenEmbedding({ file: join(directory, EMBEDDING) });
  throw cannotRun(
    `${corpus.traces[0]!.directory} has no ${EMBEDDING}: start its \`sida trace\` again, which adds it and keeps the records`,
  );
}

function describe(corpus: Corpus) {
  return corpus.traces.map(({ meta, records, lengths }) => ({
    data: meta.data,
    template: meta.template,
    maxNewTokens: meta.maxNewTokens,
    records,
    // Files of one name may hold other texts, which most often have other lengths.
    lengths: hashOfLengths(lengths),
  }));
}

function hashOfLengths(lengths: readonly Int32Array[]): string {
  const hash = createHash('sha256');
  for (const own of lengths) hash.update(own);
  return hash.digest('hex').slice(0, 16);
}

function usable({ corpus, sequences }: SequenceSet, stack: number): SequenceSet {
  return { corpus, sequences: sequences.filter((sequence) => corpus.length(sequence, stack) > 0) };
}

/** Keeps the sequences that have tokens in the stack. Throws cannot_run if there are none. */
export function sequencesOf(set: SequenceSet, stack: number, purpose: string): SequenceSet {
  const found = usable(set, stack);
  if (found.sequences.length > 0) return found;
  const names = set.corpus.traces.map((trace) => trace.directory).join(', ');
  throw cannotRun(
    `${names}: none of ${set.sequences.length} sequences has ${set.corpus.stacks[stack]} tokens to ${purpose}; more lines are needed`,
  );
}

/** `most` limits the number of networks to train. */
export async function openSetup(
  addon: NativeAddon,
  request: TrainRequest,
  most = Number.POSITIVE_INFINITY,
): Promise<TrainingSetup> {
  const { options, only } = request;
  const both = request.traces.find((trace) => request.heldOut.includes(trace));
  if (both !== undefined) throw cannotRun(`${both} is to be trained on and held out at once`);
  const open: Corpus[] = [];
  const close = () => {
    for (const corpus of open) corpus.close();
  };
  try {
    const corpus = await Corpus.open(request.traces);
    open.push(corpus);
    const heldOutCorpus = request.heldOut.length > 0 ? await Corpus.open(request.heldOut) : undefined;
    if (heldOutCorpus) open.push(heldOutCorpus);
    checkSameModel(open);
    const split = splitHeldOut(corpus.sequences, heldOutCorpus ? 0 : options.heldOutShare, options.seed);
    const { meta } = corpus.traces[0]!;
    const stacks = [...corpus.stacks.keys()]
      .filter(
        (stack) => corpus.layers(stack).length > 0 && (only ?? corpus.stacks[stack]) === corpus.stacks[stack],
      )
      .slice(0, most);
    if (stacks.length === 0)
      throw cannotRun(`${meta.model.name} has no MoE layers in its ${only ?? 'stacks'}`);
    const own = fittedOptions(options, meta);
    return {
      train: { corpus, sequences: split.train },
      heldOut: heldOutCorpus
        ? { corpus: heldOutCorpus, sequences: splitHeldOut(heldOutCorpus.sequences, 0, 0).train }
        : { corpus, sequences: split.heldOut },
      embedding: loadEmbedding(addon, corpus),
      stacks,
      network: request.network,
      options: own,
      topK: meta.topK,
      top: topOf(own, open),
      identity: {
        model: meta.model.weights,
        traces: describe(corpus),
        'held-out': heldOutCorpus
          ? describe(heldOutCorpus)
          : { share: options.heldOutShare, seed: options.seed },
        network: request.network,
        stacks: stacks.map((stack) => corpus.stacks[stack]),
        ...ownOptions(request.network, own),
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}
