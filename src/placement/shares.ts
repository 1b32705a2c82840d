/** Which experts of a model a share of it has. */
import { SidaError } from '../errors.js';
import type { ModelShape } from '../native/addon-types.js';
import { expertsOf } from '../native/model-shape.js';
import { layerChoices } from '../trace/layer-choices.js';
import { loadsOf, type Placement, placeAntiCorrelated } from './place-experts.js';

/** More tell little more, and take seconds with hundreds of experts a layer. */
const MOST_TRACED_TOKENS = 2000;

export interface Share {
  /** From 1. */
  number: number;
  of: number;
}

/** Of each MoE layer, each expert's share, from 0. Experts that a token needs together part. */
export async function partsByUse(
  trace: string,
  shares: number,
  { name, weights: own, shape }: { name: string; weights: string; shape: ModelShape },
): Promise<Placement[]> {
  const { topK, weights, layers } = await layerChoices(trace, MOST_TRACED_TOKENS);
  if (weights !== own) {
    const message = `${trace} is no trace of ${name}: it has other weights`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  if (layers.some((choices) => choices.length < topK))
    throw new SidaError({
      code: 'cannot_run',
      message: `${trace} has no tokens for each of the layers of ${name}`,
    });
  return layers.map((choices, layer) =>
    placeAntiCorrelated(loadsOf(choices, { experts: expertsOf(shape, layer), topK, batchTokens: 1 }), shares),
  );
}

/** By flat id: 1 where the share has it. Without `parts` it has every n-th expert of a layer. */
export function heldBy({ number, of }: Share, { firstExperts }: ModelShape, parts?: Placement[]): Uint8Array {
  const held = new Uint8Array(firstExperts.at(-1)!);
  for (let layer = 0; layer + 1 < firstExperts.length; layer++) {
    const first = firstExperts[layer]!;
    for (let index = 0; first + index < firstExperts[layer + 1]!; index++)
      held[first + index] = (parts?.[layer]?.[index] ?? index % of) === number - 1 ? 1 : 0;
  }
  return held;
}
