// What an encoder pass cannot do without: the weights it reads and the operations it does.
const BYTES = { f32: 4, bf16: 2, int8: 1, int4: 0.5 };

/**
 * Bytes of weights that a pass touches, each once: dense layers, routers and embedding rows, the experts it needed
 * (padded blocks, their scales included), and the keys and values of the decoder's cross-attention, which our
 * `encode` computes with it.
 */
export function weightBytes(shape, { tokens, expertsNeeded, expertBytes, dense }) {
  const { dModel, dKv, dFf, heads, encoderLayers, decoderLayers, experts, moeLayers } = shape;
  const inner = dKv * heads;
  const sparse = moeLayers.filter((name) => name.startsWith('encoder.')).length;
  const denseWeights =
    encoderLayers * 4 * dModel * inner +
    (encoderLayers - sparse) * 2 * dModel * dFf +
    decoderLayers * 2 * dModel * inner +
    tokens * dModel;
  const routers = sparse * dModel * experts * BYTES.f32;
  return denseWeights * BYTES[dense] + routers + expertsNeeded * expertBytes;
}

/** Operations of a pass of one sequence, a multiplication and an addition each one. */
export function passFlops(shape, tokens) {
  const { dModel, dKv, dFf, heads, encoderLayers, decoderLayers, experts, moeLayers } = shape;
  const inner = dKv * heads;
  const sparse = moeLayers.filter((name) => name.startsWith('encoder.')).length;
  const linear =
    encoderLayers * (4 * dModel * inner + 2 * dModel * dFf) +
    sparse * dModel * experts +
    decoderLayers * 2 * dModel * inner;
  const attention = encoderLayers * 2 * tokens * inner;
  return 2 * tokens * (linear + attention);
}
