/** The native expert predictor and its training. */

/**
 * The token embedding of a model, (vocab, dModel), f32. When each stack has its own, this is the encoder's. Objects
 * of one thread can share it cheaply. Rows of a pack are read when they are needed.
 */
export interface TokenEmbedding {
  readonly vocab: number;
  readonly dModel: number;
  /** Writes a safetensors file with one f32 tensor `embedding.weight`. */
  save(file: string): void;
  /** Frees it, unless a predictor or a training still uses it. Its other members then throw. */
  close(): void;
}

export interface PredictorShape {
  dIn: number;
  hidden: number;
  layers: number;
  experts: number;
  /** Whether a token sees only itself and the tokens before it, as in a decoder. */
  causal: boolean;
  /** Whether each LSTM layer runs in both directions (hidden/2 each, concatenated). Not with `causal`. */
  bidirectional: boolean;
  /** Whether the compressing layer adds a position input. */
  /**
   * Number of residual attention blocks of an `attention` network, 1 to 4. `hidden` must then be a multiple of 16 and
   * `bidirectional` must be false. 0 (default) makes an `lstm` network.
   */
  blocks?: number;
  /** LSTM layers, 1 or 2 (default). No meaning with blocks, as `attentionWeights`. */
  lstmLayers?: number;
  /** What makes weights of the scores of the attention behind the LSTM layers. Default: `sparsemax`. */
  attentionWeights?: 'sparsemax' | 'softmax';
  /** Whether each sequence has a summary of the encoder's tokens (the mean of their embeddings) as an input. */
  summary: boolean;
}

/** The shape of an existing network, and what it is made of: LSTM layers or residual attention blocks. */
export interface NetworkShape extends PredictorShape {
  readonly kind: 'lstm' | 'attention';
  blocks: number;
  lstmLayers: number;
  attentionWeights: 'sparsemax' | 'softmax';
}

/** Token sequences, concatenated. */
export interface PredictorInput {
  /** (tokens). */
  tokens: Int32Array;
  /** (S + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** With `summary`, the encoder tokens of each sequence; (context tokens), (S + 1). Otherwise ignored. */
  contextTokens?: Int32Array;
  contextOffsets?: Int32Array;
}

/**
 * A predictor for inference. Not thread-safe. It reads the embedding of a token when it first sees the token, and then
 * keeps a product of it: a call with a new token throws io_error when the embedding's pack cannot be read.
 */
export interface Predictor {
  readonly shape: NetworkShape;
  /** Bytes of memory, including scratch space and live sequences, without the embedding. */
  readonly bytes: number;
  /**
   * Overwrites `experts` and `alpha`, (layers, tokens, k), with the k most likely experts, best first, and the
   * softmax over all experts of the layer of the logits times `alphaSharpness`. `chance`, optional and of the same
   * shape, gets the softmax with `chanceSharpness`, times `choices` and at most 1. `logits`, optional, gets the
   * logits, (layers, tokens, experts). Returns false when a logit is not finite. The arrays must not be used then.
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
   * Begins sequences of a causal predictor. The caller chooses their ids. The context of a sequence is the encoder
   * tokens of its summary, or, without `summary`, the tokens it begins with. Throws invalid_request for a live id.
   */
  begin(ids: Int32Array, contextTokens?: Int32Array, contextOffsets?: Int32Array): void;
  /** Begins sequences, each as a copy of the one in `from`. Throws invalid_request for a live or an unknown id. */
  fork(from: Int32Array, ids: Int32Array): void;
  /**
   * Appends one token to each sequence. Overwrites `experts`, `alpha` and `chance`, (layers, S, k), as `predict`
   * does. After it returns false, the sequences must not be used.
   */
  step(
    ids: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance?: Float32Array,
  ): boolean;
  /** Ends sequences. Unknown ids are ignored. */
  end(ids: Int32Array): void;
  close(): void;
}

export interface TrainerSettings {
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  /** Number of the teacher's best experts that are distilled. */
  top: number;
  /** The teacher's logits are multiplied by this before their softmax; default 1. */
  sharpness?: number;
  /** Weight of the cross-entropy relative to the distillation. */
  lambda: number;
  /** Number of the teacher's best experts in the cross-entropy. */
  k: number;
  /** Experts that the teacher's router chooses for a token; default 1. */
  choices?: number;
  /** Ranks k at which recall@k is counted; default 1, 2 and 3. */
  ranks?: Int32Array;
  /** `none`: the cross-entropy alone teaches. */
  distillation: 'kl' | 'none';
  /** Largest norm of a step's gradient. 0 means no limit. */
  clipNorm: number;
  threads: number;
}

export interface TrainingBatch extends PredictorInput {
  /** The teacher's best experts and their router logits, (layers, tokens, top), best first. */
  experts: Uint16Array;
  logits: Float32Array;
  top: number;
}

/** The result of a step or an evaluation. Losses are means over tokens and layers. */
export interface TrainingReport {
  loss: number;
  distillation: number;
  crossEntropy: number;
  /** Norm before clipping. 0 for an evaluation. */
  gradientNorm: number;
  /** Whether the weights changed. False for an evaluation, and when the loss or the gradient is not finite. */
  applied: boolean;
  /** Per layer, the number of the teacher's choices among the student's best experts, for each of `ranks`. */
  layers: { tokens: number; hits: number[] }[];
}

/** Not thread-safe. */
export interface PredictorTrainer {
  readonly shape: NetworkShape;
  /** Number of optimizer steps so far. */
  readonly steps: number;
  step(batch: TrainingBatch, learningRate: number): TrainingReport;
  evaluate(batch: TrainingBatch): TrainingReport;
  /** Saves to an existing directory. After a crash it holds either the previous predictor or the new one. */
  save(directory: string, withOptimizer: boolean): void;
  close(): void;
}
