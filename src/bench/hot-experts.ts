/** The experts that other text needed most: what a static choice keeps. */
import { readMeta, readTrace } from '../trace/trace-file.js';

/** Flat ids, the most often needed first; an input counts an expert once. Experts nobody needed come last. */
export async function hottestExperts(trace: string): Promise<number[]> {
  const { layers, experts } = await readMeta(trace);
  const uses = new Float64Array(layers.length * experts);
  for await (const needs of expertNeeds(trace))
    for (const ids of needs.visits) for (const id of ids) uses[id]! += 1;
  return [...uses.keys()].sort((a, b) => uses[b]! - uses[a]! || a - b);
}

export interface InputNeeds {
  /** Of the encoder. */
  tokens: number;
  /** Flat ids that each MoE layer needs, encoder first; the decoder's for its first token. */
  visits: Set<number>[];
}

/** What each recorded input needs, in order. */
export async function* expertNeeds(trace: string): AsyncGenerator<InputNeeds> {
  const { layers, experts, top } = await readMeta(trace);
  const encoderLayers = layers.filter((layer) => layer.startsWith('encoder.')).length;
  for await (const { encoder, decoder } of readTrace(trace)) {
    const visits = layers.map((_, layer) => {
      const inEncoder = layer < encoderLayers;
      const side = inEncoder ? encoder : decoder;
      const row = (inEncoder ? layer : layer - encoderLayers) * side.tokens.length;
      const ids = new Set<number>();
      const used = inEncoder ? side.tokens.length : 1;
      for (let t = 0; t < used; t++) ids.add(layer * experts + side.experts[(row + t) * top]!);
      return ids;
    });
    yield { tokens: encoder.tokens.length, visits };
  }
}
