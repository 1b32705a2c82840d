/** The native expert predictor and its training. */

/**
 * The token embedding of a model, (vocab, dModel), f32. Cheap to share between objects of one thread. Of a model
 * whose stacks have one each, the encoder's.
 */
export interface TokenEmbedding {
  readonly vocab: number;
  readonly dModel: number;
  /** Writes a safetensors file with one f32 tensor `embedding.weight`. */
  save(file: string): void;
}

export interface PredictorShape {
  dIn: number;
  hidden: number;
  layers: number;
  experts: number;
  /** A token sees itself and the tokens before it: the decoder's kind. */
  causal: boolean;
  /** Each LSTM layer runs in both directions (h/2 each, concatenated). Not with causal. */
  bidirectional: boolean;
  /** A position input is added in the compressing layer. */
  positions: boolean;
  /**
   * Residual attention blocks in the place of the LSTMs, 0 (default) to 4: `hidden` is then a multiple of 16 and
   * nothing is bidirectional.
   */
  blocks?: number;
  /** Takes a summary of the encoder's tokens (mean of their embeddings) beside each sequence. */
  summary: boolean;
}

/** Token sequences, one after the other. */
export interface PredictorInput {
  /** (tokens). */
  tokens: Int32Array;
  /** (S + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** With `summary`: the encoder tokens behind each sequence; (context tokens), (S + 1). Ignored without. */
  contextTokens?: Int32Array;
  contextOffsets?: Int32Array;
}

/** Inference. Not thread-safe. Holds products of the embedding, not the embedding. */
export interface Predictor {
  readonly shape: PredictorShape;
  /** Memory held, scratch space and live sequences included. */
  readonly bytes: number;
  /**
   * Overwrites experts and alpha, (layers, tokens, k): the k most likely experts, best first, and the softmax, over
   * all experts of the layer, of the logits times its `alphaSharpness`. `chance`, optional and of the same shape: with
   * its `chanceSharpness`, times `choices` and at most 1. False where a logit is not finite: the arrays then hold
   * nothing of use.
   * `logits`, optional: (layers, tokens, experts).
   */
  predict(
    input: PredictorInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance?: Float32Array,
    logits?: Float32Array,
  ): boolean;
  /**
   * Causal only: begins sequences, whose ids the caller chooses, with the context of each: the encoder tokens of its
   * summary, or without a summary the tokens it begins with. Throws invalid_request for an id that lives.
   */
  begin(ids: Int32Array, contextTokens?: Int32Array, contextOffsets?: Int32Array): void;
  /**
   * One more token of each; experts, alpha and chance (layers, S, k) as in predict. After false the sequences are of
   * no more use.
   */
  step(
    ids: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance?: Float32Array,
  ): boolean;
  /** Forgets; unknown ids are ignored. */
  end(ids: Int32Array): void;
  close(): void;
}

export interface TrainerSettings {
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  /** Experts of the teacher that are distilled: its best so many. */
  top: number;
  /** The teacher's logits are multiplied by this before their softmax; default 1. */
  sharpness?: number;
  /** Weight of the cross-entropy beside the distillation. */
  lambda: number;
  /** Cross-entropy on the teacher's best k experts. */
  k: number;
  /** Experts that the teacher's router chooses for a token, its best so many; default 1. */
  choices?: number;
  /** Where hits are counted; default 1, 2 and 3. */
  ranks?: Int32Array;
  distillation: 'kl' | 'l1';
  /** The student's probabilities are normalized over the distilled experts alone. */
  studentOverTop: boolean;
  /** Largest norm of a step's gradient; 0: none. */
  clipNorm: number;
  threads: number;
}

export interface TrainingBatch extends PredictorInput {
  /** The teacher's best experts and their router logits, (layers, tokens, top), best first. */
  experts: Uint16Array;
  logits: Float32Array;
  top: number;
}

/** Losses are means over tokens and layers. */
export interface TrainingReport {
  loss: number;
  distillation: number;
  crossEntropy: number;
  /** Before clipping; 0 for an evaluation. */
  gradientNorm: number;
  /** False for an evaluation, and where loss or gradient is not finite: nothing was learnt. */
  applied: boolean;
  /** How many of the teacher's choices were among the student's best, for each of `ranks`. */
  layers: { tokens: number; hits: number[] }[];
}

/** Not thread-safe. */
export interface PredictorTrainer {
  readonly shape: PredictorShape;
  /** Optimizer steps done. */
  readonly steps: number;
  step(batch: TrainingBatch, learningRate: number): TrainingReport;
  evaluate(batch: TrainingBatch): TrainingReport;
  /** The directory exists. A crash leaves the predictor of before or the new one. */
  save(directory: string, withOptimizer: boolean): void;
  close(): void;
}
