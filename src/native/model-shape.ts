/** Helpers that read the stacks of a model's shape. */
import type { ModelShape, PackLayout } from './addon-types.js';

type Stacks = Pick<ModelShape, 'stacks'>;
type FirstExperts = { firstExperts: readonly number[] };

/** Index of the stack that produces logits. */
export function lastStack({ stacks }: Stacks): number {
  return stacks.length - 1;
}

/** Whether inputs run through an encoder before the stack that produces logits. */
export function isEncoderDecoder({ stacks }: Stacks): boolean {
  return stacks.length > 1;
}

/** Whether inputs run through an encoder, which takes each in one pass. */
export function hasEncoder({ stacks }: Stacks): boolean {
  return !stacks[0]!.causal;
}

/** Whether the model is an encoder alone, whose states are its answers: it has no logits. */
export function embedsOnly({ stacks }: Stacks): boolean {
  return !stacks.at(-1)!.causal;
}

/** Most tokens of an input that an encoder takes in one pass. An encoder alone has no positions beyond its context. */
export function mostEncoderTokens(
  shape: Stacks & Pick<ModelShape, 'contextTokens'>,
  maxBatchTokens: number,
): number {
  const own = embedsOnly(shape) ? shape.contextTokens : null;
  return Math.min(maxBatchTokens, own ?? maxBatchTokens);
}

export const MODEL_KINDS = ['encoder-decoder', 'decoder-only', 'encoder-only'] as const;

export function kindOf(shape: Stacks): (typeof MODEL_KINDS)[number] {
  if (embedsOnly(shape)) return 'encoder-only';
  return isEncoderDecoder(shape) ? 'encoder-decoder' : 'decoder-only';
}

/** Number of experts of a MoE layer. */
export function expertsOf({ firstExperts }: FirstExperts, layer: number): number {
  return firstExperts[layer + 1]! - firstExperts[layer]!;
}

/** One number where all layers have the same number of experts, otherwise that of each. */
export function expertsPerLayer(shape: FirstExperts & Pick<ModelShape, 'experts'>): number | number[] {
  const all = shape.firstExperts.slice(1).map((_, layer) => expertsOf(shape, layer));
  return all.every((experts) => experts === shape.experts) ? shape.experts : all;
}

/** What `expertsPerLayer` told of `layers` layers. */
export function firstExpertsOf(perLayer: number | readonly number[], layers: number): number[] {
  const first = [0];
  for (let layer = 0; layer < layers; layer++)
    first.push(first[layer]! + (typeof perLayer === 'number' ? perLayer : perLayer[layer]!));
  return first;
}

/** Flat number of a stack's first MoE layer. */
export function firstMoeLayer({ stacks }: Stacks, stack: number): number {
  return stacks.slice(0, stack).reduce((sum, { moeLayers }) => sum + moeLayers.length, 0);
}

/** The number of all experts of a pack. */
export function expertsIn({ layers, experts_per_layer }: PackLayout['experts']): number {
  return firstExpertsOf(experts_per_layer, layers.length).at(-1)!;
}
