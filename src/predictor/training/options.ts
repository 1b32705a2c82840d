/** The options of a training: what a user may choose, and what belongs to a kind of network. */
import type { PredictorShape } from '../../native/addon-types.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';

export interface TrainingOptions {
  /** Width of the layers. */
  hidden: number;
  /** Highest learning rate of AdamW. */
  lr: number;
  /** Most sequences of a minibatch. */
  batch: number;
  epochs: number;
  /** Of the weights, the order of the data and the held-out share. */
  seed: number;
  /** Most tokens of a minibatch; 0 means no limit. */
  batchTokens: number;
  /** λ: weight of the cross-entropy relative to the distillation. */
  lambda: number;
  /** T: distillation covers the teacher's best T experts, or as many as the traces hold. */
  top: number;
  /**
   * Factor on the teacher's logits before their softmax, where routers choose one expert. Those routers are often
   * nearly undecided, and unsharpened logits then teach little about which expert wins.
   */
  sharpness: number;
}

/** The defaults of `lstm` are SiDA-MoE's network and loss. */
export const DEFAULTS: Record<NetworkName, TrainingOptions> = {
  lstm: {
    ...{ hidden: 256, lr: 2e-3, batch: 64, epochs: 40, seed: 1 },
    ...{ batchTokens: 0, lambda: 0.005, top: 30, sharpness: 1 },
  },
  attention: {
    ...{ hidden: 128, lr: 1e-2, batch: 64, epochs: 10, seed: 1 },
    ...{ batchTokens: 1024, lambda: 0.3, top: 30, sharpness: 20 },
  },
};

/** What a kind of network is made of. */
export const PARTS: Record<NetworkName, Partial<PredictorShape>> = {
  lstm: { lstmLayers: 2, attentionWeights: 'sparsemax' },
  attention: { blocks: 2 },
};
