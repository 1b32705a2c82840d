/** A hash function names experts: a predictor network, a learned table, recorded routing, or a control. */
import type { ModelShape, PredictorInput, StackShape } from '../native/addon-types.js';
import { TABLE_EXACT, TABLE_PREDICTED, type TableKind } from '../protocol/hash-table.js';
import type { HashFunctionName } from '../protocol/predictor-messages.js';

export type StackName = StackShape['name'];

/**
 * Sequences of one stack, one after the other. The context of a sequence is what stands before it: the tokens that it
 * attends across to, or in a stack without cross-attention the tokens that it continues.
 */
export type HashInput = PredictorInput;

/** Names the experts of token sequences: what the hash-building thread writes into tables. */
export interface HashFunction {
  readonly name: HashFunctionName;
  /**
   * Overwrites `experts`, `alpha` and `chance`, (layers, tokens, k), of the stack's MoE layers: best first, NO_EXPERT
   * and 0 where fewer are known. α scales the expert's output; the chance is that the router will choose this expert
   * among its topK, and sums to at most topK over a token's entries. False: cannot say (a network that is not finite,
   * an input it was not recorded for); the arrays then hold nothing of use and the batch is run without a table.
   */
  fill(
    stack: number,
    input: HashInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean;
  /** Steps through the last stack, where the function keeps a state of each sequence; null: it says nothing of it. */
  stepper?(): DecoderStepper | null;
  close(): void;
}

/** Names the experts of a generation's tokens, one step at a time. */
export interface DecoderStepper {
  /**
   * `context`: what the sequence has before it, as in HashInput: its encoder's tokens, or its prompt. Ids are the
   * caller's.
   */
  begin(sequence: number, context: Int32Array): void;
  /** One more token of each; overwrites experts, alpha and chance, (layers, S, k). False as in HashFunction.fill. */
  step(
    sequences: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean;
  /** Forgets; an unknown id is ignored. */
  end(sequence: number): void;
}

/** What routing depends on in a stack of a model. */
interface RoutingStack {
  /** As files name it. */
  name: StackName;
  /** MoE layers. */
  layers: number;
  /** A token sees itself and those before it. */
  causal: boolean;
  /** Its sequences attend across to those of the stack before. */
  crosses: boolean;
}

/** The sizes that a hash function and its model must share. */
export interface RoutingShape {
  /** In the order tokens go through them. */
  stacks: readonly RoutingStack[];
  /** Experts of a layer. */
  experts: number;
  /** Experts that a router chooses for a token. */
  topK: number;
  /** α: the probabilities of the chosen are divided by their sum. */
  normalized: boolean;
  vocab: number;
}

/** Flat number of a stack's first MoE layer. */
export function firstLayerOf({ stacks }: Pick<RoutingShape, 'stacks'>, stack: number): number {
  return stacks.slice(0, stack).reduce((sum, { layers }) => sum + layers, 0);
}

export function layersOf({ stacks }: Pick<RoutingShape, 'stacks'>): number {
  return firstLayerOf({ stacks }, stacks.length);
}

export function routingShape(
  model: Pick<ModelShape, 'stacks' | 'experts' | 'topK' | 'normalized' | 'vocabSize'>,
): RoutingShape {
  return {
    stacks: model.stacks.map(({ name, moeLayers, causal, crosses }) => {
      return { name, layers: moeLayers.length, causal, crosses };
    }),
    experts: model.experts,
    topK: model.topK,
    normalized: model.normalized,
    vocab: model.vocabSize,
  };
}

/** The kind of the tables that a hash function fills. */
export function tableKind(name: HashFunctionName): TableKind {
  return name === 'replay' ? TABLE_EXACT : TABLE_PREDICTED;
}
