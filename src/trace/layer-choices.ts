/** The experts that the routers of a recorded trace chose. */
import { readMeta, readTrace, shapeOf } from './trace-file.js';

interface LayerChoices {
  /** The most experts of any layer. */
  experts: number;
  topK: number;
  /** Identity of the model's weights. */
  weights: string;
  /** Of each MoE layer, (tokens, topK): indices within the layer. */
  layers: number[][];
}

/** `mostTokens`: of a layer; the first ones are read. */
export async function layerChoices(
  directory: string,
  mostTokens = Number.POSITIVE_INFINITY,
): Promise<LayerChoices> {
  const meta = await readMeta(directory);
  const { experts, topK, model } = meta;
  const { stacks, top } = shapeOf(meta);
  const count = stacks.reduce((sum, { layers }) => sum + layers, 0);
  const layers: number[][] = Array.from({ length: count }, () => []);
  for await (const record of readTrace(directory)) {
    let layer = 0;
    for (const { tokens, experts: chosen } of record.stacks) {
      const rows = chosen.length / top;
      for (let row = 0; row < rows; row++) {
        const own = layers[layer + Math.floor(row / tokens.length)]!;
        if (own.length < mostTokens * topK) own.push(...chosen.subarray(row * top, row * top + topK));
      }
      layer += rows / Math.max(1, tokens.length);
    }
    if (layers.every((own) => own.length >= mostTokens * topK)) break;
  }
  return { experts, topK, weights: model.weights, layers };
}
