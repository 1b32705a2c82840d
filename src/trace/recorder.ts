/** Runs a model in exact mode over texts and records where its routers send every token. */
import { type Engine, type ModelShape, NO_PARENT, type RunResult } from '../native/addon-types.js';
import { embedsOnly } from '../native/model-shape.js';
import { continueGreedily, pickedBy } from './greedy-continuation.js';
import { RouterRanking } from './router-ranking.js';
import type { StackRecord, TraceRecord, TraceShape } from './trace-record.js';

interface RecorderInput {
  line: number;
  tokens: Int32Array;
}

/** Sequence numbers of an input in its first stack, and in the decoder of a model with two stacks. */
const FIRST = 1;
const DECODER = 2;

/** The first `top` experts of each (layer, token) of a pass: those that the router chose, then the next best. */
export function topExperts(run: RunResult, tokens: Int32Array, shape: ModelShape, top: number): StackRecord {
  const ranking = new RouterRanking(run, shape);
  const rows = run.layers.length * tokens.length;
  const record: StackRecord = {
    tokens,
    experts: new Uint16Array(rows * top),
    logits: new Float32Array(rows * top),
  };
  for (let row = 0; row < rows; row++) {
    const order = ranking.rank(row);
    for (let i = 0; i < top; i++) {
      record.experts[row * top + i] = order[i]!;
      record.logits[row * top + i] = ranking.logits[order[i]!]!;
    }
  }
  return record;
}

/** Joins the passes of one sequence along the token axis. The result is (layers, tokens, top). */
function joinPasses(passes: readonly StackRecord[], layers: number, top: number): StackRecord {
  const tokens = Int32Array.from(passes.flatMap((pass) => [...pass.tokens]));
  const joined: StackRecord = {
    tokens,
    experts: new Uint16Array(layers * tokens.length * top),
    logits: new Float32Array(layers * tokens.length * top),
  };
  let before = 0;
  for (const pass of passes) {
    const entries = pass.tokens.length * top;
    for (let layer = 0; layer < layers; layer++) {
      const to = (layer * tokens.length + before) * top;
      joined.experts.set(pass.experts.subarray(layer * entries, (layer + 1) * entries), to);
      joined.logits.set(pass.logits.subarray(layer * entries, (layer + 1) * entries), to);
    }
    before += pass.tokens.length;
  }
  return joined;
}

/**
 * Records one input: a pass over its tokens, then its greedy continuation. The continuation runs in the decoder. In a
 * model with one stack, it extends the input's own sequence. An encoder alone has none.
 */
export function record(
  engine: Engine,
  { line, tokens }: RecorderInput,
  shape: TraceShape,
  maxNewTokens: number,
): TraceRecord {
  const { stacks, tokens: special } = engine.shape;
  const alone = stacks.length === 1;
  const continues = !embedsOnly(engine.shape);
  const top = (run: RunResult, own: Int32Array) => topExperts(run, own, engine.shape, shape.top);
  try {
    const first = engine.runBatch(
      {
        stack: 0,
        sequences: Int32Array.of(FIRST),
        offsets: Int32Array.of(0, tokens.length),
        tokens,
        routerLogits: true,
        ...(alone && continues && { picks: { rows: Int32Array.of(tokens.length - 1) } }),
      },
      null,
    );
    const input = top(first, tokens);
    if (!continues) return { line, input: tokens.length, stacks: [input] };
    const begin = alone
      ? { sequence: FIRST, parent: NO_PARENT, token: pickedBy(first) }
      : { sequence: DECODER, parent: FIRST, token: special.start! };
    const ended = alone && special.end.includes(begin.token);
    const steps = continueGreedily(engine, begin, ended ? 0 : maxNewTokens).map(({ token, run }) =>
      top(run, Int32Array.of(token)),
    );
    const layers = shape.stacks.at(-1)!.layers;
    return {
      line,
      input: tokens.length,
      stacks: alone
        ? [joinPasses([input, ...steps], layers, shape.top)]
        : [input, joinPasses(steps, layers, shape.top)],
    };
  } finally {
    engine.releaseSequences(Int32Array.of(FIRST, DECODER));
  }
}
