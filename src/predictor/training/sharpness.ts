/** Fits the factors on a network's logits whose softmax best gives α, and the chance, of each expert. */
import type { Predictor, TrainingBatch } from '../../native/addon-types.js';
import { probabilitiesOf } from '../router-probabilities.js';

const LEAST = 0.001;
const MOST = 1000;
/** Steps of the golden section, which find the factor to 1 part in 10,000. */
const STEPS = 24;
const GOLDEN = (Math.sqrt(5) - 1) / 2;
/** Bounds logarithms where a prediction is certain. */
const TINY = 1e-12;

export type LogitSource = Pick<Predictor, 'shape' | 'predict'>;

/** Factors on each layer's logits before the softmax, (layers). */
export interface Sharpness {
  alpha: number[];
  chance: number[];
}

/**
 * Fits two factors per layer. With the α sharpness, the probabilities of the first topK predicted experts are nearest
 * to the router's, by KL divergence of predicted or not. With the chance sharpness, the router's choices are most
 * likely. Both are 1 if there is nothing to fit on. `heldOut` must not have been trained on.
 */
export function fitSharpness(
  network: LogitSource,
  heldOut: TrainingBatch,
  topK: number,
  layerExperts: ArrayLike<number> = new Array<number>(network.shape.layers).fill(network.shape.experts),
): Sharpness {
  const { layers, experts } = network.shape;
  const tokens = heldOut.tokens.length;
  const logits = new Float32Array(layers * tokens * experts);
  const named = new Uint16Array(layers * tokens * topK);
  const unused = new Float32Array(named.length);
  if (tokens === 0 || !network.predict(heldOut, topK, named, unused, undefined, logits)) {
    const ones = new Array<number>(layers).fill(1);
    return { alpha: ones, chance: ones };
  }
  const probabilities = probabilitiesOf(named, topK, heldOut, layerExperts);
  const fitted: Sharpness = { alpha: [], chance: [] };
  for (let layer = 0; layer < layers; layer++) {
    /** Sums `of` over the layer's tokens, each with its row and the logarithm of the sum of its powers. */
    const sum = (sharpness: number, of: (row: number, z: Float32Array, logSum: number) => number) => {
      let loss = 0;
      for (let row = layer * tokens; row < (layer + 1) * tokens; row++) {
        const z = logits.subarray(row * experts, row * experts + layerExperts[layer]!);
        loss += of(row, z, logSumOf(z, sharpness));
      }
      return loss;
    };
    const alphaLoss = (sharpness: number) =>
      sum(sharpness, (row, z, logSum) => {
        let loss = 0;
        for (let i = row * topK; i < (row + 1) * topK; i++) {
          const said = Math.exp(sharpness * z[named[i]!]! - logSum);
          const p = probabilities[i]!;
          loss -= p * Math.log(said + TINY) + (1 - p) * Math.log(1 - said + TINY);
        }
        return loss;
      });
    const chanceLoss = (sharpness: number) =>
      sum(sharpness, (row, z, logSum) => {
        let loss = 0;
        for (let i = row * heldOut.top; i < row * heldOut.top + topK; i++) {
          loss += logSum - sharpness * z[heldOut.experts[i]!]!;
        }
        return loss;
      });
    fitted.alpha.push(minimize(alphaLoss));
    fitted.chance.push(minimize(chanceLoss));
  }
  return fitted;
}

/** Golden-section search over the logarithm of the sharpness. */
function minimize(loss: (sharpness: number) => number): number {
  const lossAt = (x: number) => loss(Math.exp(x));
  let [low, high] = [Math.log(LEAST), Math.log(MOST)];
  let [a, b] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
  let [lossA, lossB] = [lossAt(a), lossAt(b)];
  for (let step = 0; step < STEPS; step++) {
    if (lossA <= lossB) {
      [high, b, lossB] = [b, a, lossA];
      a = high - GOLDEN * (high - low);
      lossA = lossAt(a);
    } else {
      [low, a, lossA] = [a, b, lossB];
      b = low + GOLDEN * (high - low);
      lossB = lossAt(b);
    }
  }
  return Math.exp((low + high) / 2);
}

function logSumOf(z: Float32Array, sharpness: number): number {
  let top = Number.NEGATIVE_INFINITY;
  for (let e = 0; e < z.length; e++) if (z[e]! > top) top = z[e]!;
  let sum = 0;
  for (let e = 0; e < z.length; e++) sum += Math.exp(sharpness * (z[e]! - top));
  return sharpness * top + Math.log(sum);
}
