// What a static choice of experts would move: the hottest stay for ever, all others share one slot. They are chosen in
// hindsight from the very run they are judged by, which is more than a real static policy could know.
import { readTrace } from '../dist/trace/trace-file.js';

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

/** Loads over the first `sentences` of a trace with each number of slots, and the experts needed. */
export async function staticHotLoads(trace, meta, sentences, slotCounts) {
  const visits = await visitsOf(trace, meta, sentences);
  const uses = new Float64Array(meta.layers.length * meta.experts);
  for (const ids of visits) for (const id of ids) uses[id] += 1;
  const hottest = Array.from(uses.keys()).sort((a, b) => uses[b] - uses[a]);
  const needed = visits.reduce((sum, ids) => sum + ids.size, 0);
  const loads = slotCounts.map((slots) => {
    const hot = hottest.slice(0, slots - 1);
    return needed - hot.reduce((sum, id) => sum + uses[id], 0);
  });
  return { needed, loads };
}
