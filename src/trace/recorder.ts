/** Runs a model in exact mode over texts and records where its routers send every token. */
import { continueGreedily } from '../inference/greedy-continuation.js';
import type { Engine, RunResult } from '../native/addon-types.js';
import type { TraceRecord, TraceShape, TraceSide } from './trace-record.js';

export interface RecorderInput {
  line: number;
  tokens: Int32Array;
}

const ONE = Int32Array.of(1);

/** The `top` experts of each (layer, token) of a pass by falling router logit, ties by index. */
function topExperts(run: RunResult, layers: number, tokens: number, experts: number, top: number): TraceSide {
  const logits = run.routerLogits!;
  const side: TraceSide = {
    tokens: new Int32Array(tokens),
    experts: new Uint16Array(layers * tokens * top),
    logits: new Float32Array(layers * tokens * top),
  };
  const order = Array.from({ length: experts }, (_, i) => i);
  for (let row = 0; row < layers * tokens; row++) {
    const values = logits.subarray(row * experts, (row + 1) * experts);
    order.sort((a, b) => values[b]! - values[a]! || a - b);
    for (let i = 0; i < top; i++) {
      side.experts[row * top + i] = order[i]!;
      side.logits[row * top + i] = values[order[i]!]!;
    }
  }
  return side;
}

/** Joins the passes of single decoder tokens into one side: (layers, tokens, top). */
function joinSteps(steps: TraceSide[], layers: number, top: number): TraceSide {
  const tokens = steps.length;
  const joined: TraceSide = {
    tokens: Int32Array.from(steps, (step) => step.tokens[0]!),
    experts: new Uint16Array(layers * tokens * top),
    logits: new Float32Array(layers * tokens * top),
  };
  steps.forEach((step, t) => {
    for (let layer = 0; layer < layers; layer++) {
      const from = layer * top;
      const to = (layer * tokens + t) * top;
      joined.experts.set(step.experts.subarray(from, from + top), to);
      joined.logits.set(step.logits.subarray(from, from + top), to);
    }
  });
  return joined;
}

/** Records one input: the encoder pass, then the decoder over what the model itself goes on with, greedily. */
export function record(
  engine: Engine,
  { line, tokens }: RecorderInput,
  shape: TraceShape,
  maxNewTokens: number,
): TraceRecord {
  const { experts } = engine.shape;
  try {
    const encoded = engine.runBatch(
      {
        phase: 'encode',
        sequences: ONE,
        offsets: Int32Array.of(0, tokens.length),
        tokens,
        routerLogits: true,
      },
      null,
    );
    const encoder = topExperts(encoded, shape.encoderLayers, tokens.length, experts, shape.top);
    encoder.tokens.set(tokens);
    const steps = continueGreedily(engine, maxNewTokens).map(({ token, run }) => {
      const side = topExperts(run, shape.decoderLayers, 1, experts, shape.top);
      side.tokens[0] = token;
      return side;
    });
    return { line, encoder, decoder: joinSteps(steps, shape.decoderLayers, shape.top) };
  } finally {
    engine.releaseSequences(ONE);
    engine.releaseContexts(ONE);
  }
}
