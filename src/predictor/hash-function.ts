/** A hash function predicts experts: a predictor network or a learned table. */
import type { ModelShape, PredictorInput, StackShape } from '../native/addon-types.js';
import { expertsOf } from '../native/model-shape.js';

export type StackName = StackShape['name'];

/**
 * Sequences of one stack, concatenated. The context of a sequence is what precedes it: the tokens it attends to
 * through cross-attention or, in a stack without cross-attention, the tokens it continues.
 */
export type HashInput = PredictorInput;

/**
 * The experts of some tokens. The arrays are (layers, tokens, k), sorted best first. Entries beyond the known experts
 * are NO_EXPERT and 0.
 */
export interface NamedExperts {
  /** At most as many as a layer has. */
  k: number;
  experts: Uint16Array;
  /** Scales the expert's output. */
  alpha: Float32Array;
  /** Probability that the router chooses the expert among its topK. A token's chances sum to at most topK. */
  chance: Float32Array;
}

export function namedExperts(rows: number, k: number): NamedExperts {
  const entries = rows * k;
  return {
    k,
    experts: new Uint16Array(entries),
    alpha: new Float32Array(entries),
    chance: new Float32Array(entries),
  };
}

/** Predicts the experts of token sequences. The hash-building thread writes the results into tables. */
export interface HashFunction {
  readonly name: string;
  /**
   * Overwrites `into` for the stack's MoE layers. Returns false if the function cannot predict this input, for example
   * because a network's output is not finite. `into` is then undefined and the batch runs without a table.
   */
  fill(stack: number, input: HashInput, into: NamedExperts): boolean;
  /** Returns a stepper for the last stack, or null if the function cannot predict that stack. */
  stepper(): DecoderStepper | null;
  close(): void;
}

/** Predicts the experts of a generation's tokens, one step at a time. */
export interface DecoderStepper {
  /**
   * `context` is what precedes the sequence: the encoder's tokens, or the prompt. `fed` are the tokens that it has been
   * fed already. The caller chooses the ids.
   */
  begin(sequence: number, context: Int32Array, fed: Int32Array): void;
  /** Begins a sequence as a copy of another one. */
  fork(from: number, sequence: number): void;
  /** Adds one token to each of S sequences and overwrites `into`, (layers, S, k). Returns false as `fill` does. */
  step(sequences: Int32Array, tokens: Int32Array, into: NamedExperts): boolean;
  /** Releases the sequence's state. Ignores an unknown id. */
  end(sequence: number): void;
}

/** The properties of a model's stack that routing depends on. */
interface RoutingStack {
  /** As in file names. */
  name: StackName;
  /** Number of MoE layers. */
  layers: number;
  /** Whether a token attends only to itself and earlier tokens. */
  causal: boolean;
  /** Whether its sequences attend to those of the previous stack. */
  crosses: boolean;
}

/** The sizes that a hash function and its model must share. */
export interface RoutingShape {
  /** In the order that tokens pass through them. */
  stacks: readonly RoutingStack[];
  /** The most experts of any layer. */
  experts: number;
  /** As in ModelShape. */
  firstExperts: readonly number[];
  /** Experts that a router chooses for a token. */
  topK: number;
  /** Whether the model divides the chosen experts' probabilities by their sum to get α. */
  normalized: boolean;
  vocab: number;
}

/** Flat number of a stack's first MoE layer. */
export function firstLayerOf({ stacks }: Pick<RoutingShape, 'stacks'>, stack: number): number {
  return stacks.slice(0, stack).reduce((sum, { layers }) => sum + layers, 0);
}

/** Experts of each layer of a stack. */
export function expertsOfStack(shape: RoutingShape, stack: number): number[] {
  const first = firstLayerOf(shape, stack);
  return Array.from({ length: shape.stacks[stack]!.layers }, (_, layer) => expertsOf(shape, first + layer));
}

export function layersOf({ stacks }: Pick<RoutingShape, 'stacks'>): number {
  return firstLayerOf({ stacks }, stacks.length);
}

export function routingShape(
  model: Pick<ModelShape, 'stacks' | 'experts' | 'firstExperts' | 'topK' | 'normalized' | 'vocabSize'>,
): RoutingShape {
  return {
    stacks: model.stacks.map(({ name, moeLayers, causal, crosses }) => {
      return { name, layers: moeLayers.length, causal, crosses };
    }),
    experts: model.experts,
    firstExperts: model.firstExperts,
    topK: model.topK,
    normalized: model.normalized,
    vocab: model.vocabSize,
  };
}
