/** What names experts: one interface for the predictor network, learned tables, recorded routing and the controls. */
import type { ModelShape, PredictorInput } from '../native/addon-types.js';
import type { DecoderStepper } from './decoder-stepper.js';
import { TABLE_EXACT, TABLE_PREDICTED, type TableKind } from './hash-table.js';

export type Side = 'encoder' | 'decoder';
export const SIDES: readonly Side[] = ['encoder', 'decoder'];

export type HashFunctionName = 'lstm' | 'token' | 'replay' | 'shuffled';

/** Names the experts of token sequences: what the hash-building thread writes into tables. */
export interface HashFunction {
  readonly name: HashFunctionName;
  /**
   * Overwrites `experts`, `alpha` and `chance`, (layers, tokens, k), of the stack's MoE layers: best first, NO_EXPERT
   * and 0 where fewer are known. α scales the expert's output; the chance is that the router will choose this expert,
   * and sums to at most 1 over a token's entries. False: cannot say (a network that is not finite, an input it was not
   * recorded for); the arrays then hold nothing of use and the batch is run without a table.
   */
  fill(
    side: Side,
    input: PredictorInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean;
  /** Where the function keeps a state of each sequence; null: it says nothing of the decoder. */
  stepper?(): DecoderStepper | null;
  close(): void;
}

/** Sizes that a hash function must share with its model. */
export interface RoutingShape {
  /** MoE layers of each stack. */
  encoderLayers: number;
  decoderLayers: number;
  /** Experts of a layer. */
  experts: number;
  vocab: number;
}

export function layersOf(shape: RoutingShape, side: Side): number {
  return side === 'encoder' ? shape.encoderLayers : shape.decoderLayers;
}

export function encoderLayersIn(names: readonly string[]): number {
  return names.filter((name) => name.startsWith('encoder.')).length;
}

export function routingShape(model: Pick<ModelShape, 'moeLayers' | 'experts' | 'vocabSize'>): RoutingShape {
  const encoderLayers = encoderLayersIn(model.moeLayers);
  return {
    encoderLayers,
    decoderLayers: model.moeLayers.length - encoderLayers,
    experts: model.experts,
    vocab: model.vocabSize,
  };
}

/** The kind of the tables that a hash function fills. */
export function tableKind(name: HashFunctionName): TableKind {
  return name === 'replay' ? TABLE_EXACT : TABLE_PREDICTED;
}
