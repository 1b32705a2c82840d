// What an encoder pass cannot do without: the weights it reads and the operations it does.
const BYTES = { f32: 4, bf16: 2, int8: 1, int4: 0.5 };

/**
 * Bytes of weights that a pass touches, each once: dense layers, routers and embedding rows, the experts it needed
 * (padded blocks, their scales included), and the keys and values of the decoder's cross-attention, which our
 * `encode` computes with it.
 */
export function weightBytes(shape, { tokens, expertsNeeded, expertBytes, dense }) {
  const { width, attention, sparse, layers, decoderLayers, feedForward } = weightsOf(shape);
  const denseWeights =
    layers * 4 * width * attention +
    (layers - sparse) * 2 * width * feedForward +
    decoderLayers * 2 * width * attention +
    tokens * width;
  const routers = sparse * width * shape.experts * BYTES.f32;
  return denseWeights * BYTES[dense] + routers + expertsNeeded * expertBytes;
}

/** Operations of a pass of one sequence, a multiplication and an addition each one. */
export function passFlops(shape, tokens) {
  const { width, attention, sparse, layers, decoderLayers, feedForward } = weightsOf(shape);
  const linear =
    layers * (4 * width * attention + 2 * width * feedForward) +
    sparse * width * shape.experts +
    decoderLayers * 2 * width * attention;
  return 2 * tokens * (linear + layers * 2 * tokens * attention);
}

/** Columns and layers of the encoder; an expert is as wide as a dense feed-forward block. */
function weightsOf({ width, heads, headDim, stacks: [encoder, decoder], expertWidth }) {
  return {
    width,
    attention: heads * headDim,
    sparse: encoder.moeLayers.length,
    layers: encoder.layers,
    decoderLayers: decoder.layers,
    feedForward: expertWidth,
  };
}
