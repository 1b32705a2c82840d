/**
 * Static gating at the level of a model: the measured pass of the engine, which gates dynamically, with the experts of
 * each MoE layer replaced by what computing all of them at a fixed capacity costs on the same routes. The engine itself
 * has no static gating. Both ways through a layer come from one native bench, so that their difference is like for
 * like. "Towards MoE Deployment", figures 9 and 10.
 */
import { sum } from '../support/statistics.js';

/** A batch of one MoE layer both ways, as native/bench/gating_bench.cc prints it. */
export interface GatedBatch {
  tokens: number;
  expertsUsed: number;
  mostTokens: number;
  dynamicMs: number;
  dynamicBytes: number;
  /** Every expert computes `capacity` rows; `factor` 0: the least capacity that drops nothing. */
  static: { factor: number; capacity: number; ms: number; bytes: number; dropped: number }[];
}

const FLOAT = 4;

export interface StaticPass {
  /** 0: the least capacity that drops nothing. */
  factor: number;
  ms: number;
  /** Weights, KV cache, workspace, and the padded rows of one layer. */
  bytes: number;
  /** Of the one-hot mask that DeepSpeed-MoE and Fairseq multiply with (tokens, experts, capacity), computed. */
  maskBytes: number;
  /** Share of the choices that found no room, mean of the layers. */
  dropped: number;
}

/** `layers`: every MoE layer of the pass, each with the same factors. `bytes`: what the engine's own pass needs. */
export function staticPasses(
  pass: { ms: number; bytes: number; tokens: number },
  layers: readonly GatedBatch[],
  experts: number,
): StaticPass[] {
  return layers[0]!.static.map(({ factor }, i): StaticPass => {
    const padded = layers.map((layer) => layer.static[i]!);
    const slower = sum(padded.map(({ ms }, l) => ms - layers[l]!.dynamicMs));
    // Layers take turns with the same buffers.
    const larger = Math.max(...padded.map(({ bytes }, l) => bytes - layers[l]!.dynamicBytes));
    const capacity = Math.max(...padded.map((own) => own.capacity));
    return {
      factor,
      ms: pass.ms + slower,
      bytes: pass.bytes + larger,
      maskBytes: pass.tokens * experts * capacity * FLOAT,
      dropped: sum(padded.map(({ dropped }) => dropped)) / padded.length,
    };
  });
}
