/** Helpers that read the stacks of a model's shape. */
import type { ModelShape } from './addon-types.js';

type Stacks = Pick<ModelShape, 'stacks'>;

/** Index of the stack that produces logits. */
export function lastStack({ stacks }: Stacks): number {
  return stacks.length - 1;
}

/** Whether inputs run through an encoder before the stack that produces logits. */
export function isEncoderDecoder({ stacks }: Stacks): boolean {
  return stacks.length > 1;
}

/** Flat number of a stack's first MoE layer. */
export function firstMoeLayer({ stacks }: Stacks, stack: number): number {
  return stacks.slice(0, stack).reduce((sum, { moeLayers }) => sum + moeLayers.length, 0);
}
