// What a static choice of experts would move: those that were needed most in other text stay for ever, all others share
// one slot.
import { readMeta, readTrace } from '../dist/trace/trace-file.js';

/** Enough to know which experts are hot. */
const HOT_SENTENCES = 5000;

/** Needed experts (layer · experts + index) of each layer's turn: the encoder's, then those of the first decoder token. */
async function visitsOf(trace, { experts, layers, top }, sentences) {
  const encoderLayers = layers.filter((layer) => layer.startsWith('encoder.')).length;
  const visits = [];
  let read = 0;
  for await (const { encoder, decoder } of readTrace(trace)) {
    if (read++ === sentences) break;
    for (const [side, first, count, used] of [
      [encoder, 0, encoderLayers, encoder.tokens.length],
      [decoder, encoderLayers, layers.length - encoderLayers, 1],
    ]) {
      const tokens = side.tokens.length;
      for (let layer = 0; layer < count; layer++) {
        const ids = new Set();
        for (let t = 0; t < used; t++) {
          ids.add((first + layer) * experts + side.experts[(layer * tokens + t) * top]);
        }
        visits.push(ids);
      }
    }
  }
  return visits;
}

/** Times that each expert was needed. */
function usesOf(visits, { layers, experts }) {
  const uses = new Float64Array(layers.length * experts);
  for (const ids of visits) for (const id of ids) uses[id] += 1;
  return uses;
}

/**
 * Loads over the first `sentences` of `trace` with each number of slots, and the experts needed. The hot ones are those
 * of `hotTrace`.
 */
export async function staticHotLoads(trace, hotTrace, sentences, slotCounts) {
  const meta = await readMeta(trace);
  const visits = await visitsOf(trace, meta, sentences);
  const uses = usesOf(visits, meta);
  const known = usesOf(await visitsOf(hotTrace, await readMeta(hotTrace), HOT_SENTENCES), meta);
  const hottest = Array.from(known.keys()).sort((a, b) => known[b] - known[a]);
  const needed = visits.reduce((sum, ids) => sum + ids.size, 0);
  const loads = slotCounts.map((slots) => {
    const hot = hottest.slice(0, slots - 1);
    return needed - hot.reduce((sum, id) => sum + uses[id], 0);
  });
  return { needed, loads };
}
