/**
 * True tables: the recorded routing of the inputs that a trace holds. `sida serve` takes this module with
 * SIDA_HASH_FUNCTION_MODULE, and the trace's directory as its --predictor. With SIDA_REPLAY_RIGHT=0.8, each named
 * expert is the recorded one with that chance and else any, as if a predictor without a network's cost named them.
 */
import { NO_EXPERT } from '../../../dist/native/addon-types.js';
import {
  type DecoderStepper,
  type HashFunction,
  type HashInput,
  type NamedExperts,
  namedExperts,
  type RoutingShape,
  routingShape,
} from '../../../dist/predictor/hash-function.js';
import type { OpenedPredictor, PredictorDirectoryOptions } from '../../../dist/predictor/predictor-directory.js';
import { randomOf } from '../../../dist/predictor/random.js';
import { routerAlphas } from '../../../dist/predictor/router-probabilities.js';
import { Corpus, type TeacherRecord } from '../../../dist/predictor/training/corpus.js';
import { concatenated } from '../../../dist/ragged.js';

export async function open(directory: string, { model }: PredictorDirectoryOptions): Promise<OpenedPredictor> {
  const corpus = await Corpus.open([directory], model.vocabSize);
  const records = Array.from({ length: corpus.starts.at(-1)! }, (_, sequence) => corpus.record(sequence));
  corpus.close();
  const right = Number(process.env.SIDA_REPLAY_RIGHT ?? 1);
  return { function: new ReplayFunction(records, routingShape(model), right), warnings: [] };
}

/** Recorded routing of one stack: the experts that the routers chose for each token, (layers, tokens, topK). */
interface Routing {
  tokens: Int32Array;
  experts: Uint16Array;
  alpha: Float32Array;
}

export class ReplayFunction implements HashFunction {
  readonly name = 'replay';
  readonly #shape: RoutingShape;
  readonly #right: number;
  readonly #random = randomOf(1);
  readonly #recorded: readonly Routing[][];
  /** The recordings of one input, by the first stack's tokens. */
  readonly #byInput = new Map<string, readonly Routing[][]>();

  /** `right`: the share of the named experts that are the recorded ones. */
  constructor(records: readonly TeacherRecord[], shape: RoutingShape, right = 1) {
    this.#shape = shape;
    this.#right = right;
    this.#recorded = records
      .map((record) => shape.stacks.map((_, stack) => routingOf(record, stack, shape)))
      // The same input continues the same way, so the longest of several recordings is first.
      .sort((a, b) => b.at(-1)!.tokens.length - a.at(-1)!.tokens.length);
    for (const stacks of this.#recorded) {
      const input = stacks[0]!.tokens.join();
      this.#byInput.set(input, [...(this.#byInput.get(input) ?? []), stacks]);
    }
  }

  /** Recordings that may hold these tokens: all for a causal stack, where the tokens may be the prefix of any. */
  #candidates(stack: number, context: Int32Array, whole: Int32Array): readonly Routing[][] {
    const { crosses, causal } = this.#shape.stacks[stack]!;
    if (causal && !crosses) return this.#recorded;
    return this.#byInput.get((crosses ? context : whole).join()) ?? [];
  }

  /**
   * Finds a sequence of a stack with cross-attention by its context and its tokens, and any other sequence by its own
   * tokens and those that it continues. The tokens of a causal stack may be a prefix of the recorded ones.
   */
  fill(stack: number, input: HashInput, into: NamedExperts): boolean {
    const { layers, crosses } = this.#shape.stacks[stack]!;
    const { topK } = this.#shape;
    const tokens = input.tokens.length;
    into.experts.fill(NO_EXPERT);
    into.alpha.fill(0);
    into.chance.fill(0);
    for (let s = 0; s + 1 < input.offsets.length; s++) {
      const own = input.tokens.subarray(input.offsets[s], input.offsets[s + 1]);
      const context = contextOf(input, s);
      const whole = crosses ? own : concatenated([context, own]).values;
      const found = this.#candidates(stack, context, whole).find((stacks) => begins(stacks[stack]!.tokens, whole))?.[
        stack
      ];
      if (found === undefined) return false;
      const skipped = whole.length - own.length;
      for (let row = 0; row < layers * own.length; row++) {
        const [layer, t] = [Math.floor(row / own.length), row % own.length];
        const from = (layer * found.tokens.length + skipped + t) * topK;
        const to = (layer * tokens + input.offsets[s]! + t) * into.k;
        for (let i = 0; i < Math.min(into.k, topK); i++) {
          const known = this.#random() < this.#right;
          into.experts[to + i] = known ? found.experts[from + i]! : Math.floor(this.#random() * this.#shape.experts);
          into.alpha[to + i] = found.alpha[from + i]!;
          into.chance[to + i] = this.#right;
        }
      }
    }
    return true;
  }

  stepper(): DecoderStepper | null {
    return this.#shape.stacks.at(-1)!.layers === 0 ? null : new PrefixStepper(this, this.#shape);
  }

  close(): void {}
}

function contextOf({ contextTokens, contextOffsets }: HashInput, s: number): Int32Array {
  return contextTokens?.subarray(contextOffsets![s], contextOffsets![s + 1]) ?? new Int32Array();
}

function begins(whole: Int32Array, start: Int32Array): boolean {
  return start.length <= whole.length && start.every((token, i) => token === whole[i]);
}

function routingOf({ top, ...record }: TeacherRecord, stack: number, shape: RoutingShape): Routing {
  const { tokens, experts, logits } = record.stacks[stack]!;
  const { topK } = shape;
  const rows = experts.length / top;
  const chosen = { experts: new Uint16Array(rows * topK), alpha: new Float32Array(rows * topK) };
  const alphas = new Float64Array(top);
  for (let row = 0; row < rows; row++) {
    routerAlphas(logits, row * top, top, shape, alphas);
    chosen.experts.set(experts.subarray(row * top, row * top + topK), row * topK);
    chosen.alpha.set(alphas.subarray(0, topK), row * topK);
  }
  return { tokens, ...chosen };
}

/** Steps a function without state: each step calls it with the whole sequence and keeps the last token's row. */
export class PrefixStepper implements DecoderStepper {
  readonly #function: Pick<HashFunction, 'fill'>;
  readonly #stack: number;
  readonly #layers: number;
  readonly #sequences = new Map<number, { context: Int32Array; tokens: number[] }>();

  constructor(hashFunction: Pick<HashFunction, 'fill'>, { stacks }: RoutingShape) {
    this.#function = hashFunction;
    this.#stack = stacks.length - 1;
    this.#layers = stacks[this.#stack]!.layers;
  }

  begin(sequence: number, context: Int32Array, fed: Int32Array): void {
    this.#sequences.set(sequence, { context, tokens: [...fed] });
  }

  fork(from: number, sequence: number): void {
    const { context, tokens } = this.#sequences.get(from)!;
    this.#sequences.set(sequence, { context, tokens: [...tokens] });
  }

  step(sequences: Int32Array, tokens: Int32Array, into: NamedExperts): boolean {
    const states = Array.from(sequences, (id) => this.#sequences.get(id)!);
    states.forEach((state, i) => {
      state.tokens.push(tokens[i]!);
    });
    const own = concatenated(states.map((state) => state.tokens));
    const contexts = concatenated(states.map(({ context }) => context));
    const input = {
      ...{ tokens: own.values, offsets: own.offsets },
      ...{ contextTokens: contexts.values, contextOffsets: contexts.offsets },
    };
    const { k } = into;
    const all = namedExperts(this.#layers * own.values.length, k);
    if (!this.#function.fill(this.#stack, input, all)) return false;
    for (let row = 0; row < this.#layers * states.length; row++) {
      const [layer, s] = [Math.floor(row / states.length), row % states.length];
      const from = (layer * own.values.length + own.offsets[s + 1]! - 1) * k;
      for (const name of ['experts', 'alpha', 'chance'] as const) {
        into[name].set(all[name].subarray(from, from + k), row * k);
      }
    }
    return true;
  }

  end(sequence: number): void {
    this.#sequences.delete(sequence);
  }
}
