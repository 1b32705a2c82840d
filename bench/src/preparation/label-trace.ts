/**
 * Records where the routers send texts and the labels that score them, which is all that a measured pass runs. A trace
 * of `sida trace` has the tokens that the model generates in place of the labels'.
 */

import { type Engine, NO_PARENT } from '../../../dist/native/addon-types.js';
import { topExperts } from '../../../dist/trace/recorder.js';
import { routersOf, TraceWriter } from '../../../dist/trace/trace-file.js';
import type { StackRecord, TraceRecord } from '../../../dist/trace/trace-record.js';
import { engineConfig } from '../systems/engine-config.js';
import { openServedEngine } from '../systems/open-engine.js';
import { scoringInputs } from '../systems/scoring.js';

export interface LabelTraceWork {
  /** Options of `sida serve`. */
  flags: Record<string, string>;
  pack: string;
  fingerprint: string;
  weights: string;
  texts: readonly string[];
  labels: readonly string[];
  /** Directory of the trace; it does not exist. */
  out: string;
}

/** Experts of each token and layer, as `sida trace` records them by default. */
const TOP = 30;
const [ENCODER, DECODER] = [1, 2];

/** One record for each text and each token list that its labels feed to the decoder, in this order. */
export async function recordLabels({ flags, out, ...work }: LabelTraceWork): Promise<void> {
  const { pack, fingerprint, weights, texts, labels } = work;
  const engine = openServedEngine(engineConfig(flags), pack);
  const { shape } = engine;
  const writer = await TraceWriter.open(out, {
    ...({ format: 'sida-trace', version: 1 } as const),
    model: { name: pack, weights, tokenizer: fingerprint, experts: '', dense: '' },
    ...routersOf(shape, TOP),
    ...{ data: '', template: '', maxNewTokens: 0 },
  });
  try {
    const { inputs, plan } = scoringInputs(pack, shape, texts, labels);
    const fed = plan.inputs.map(({ tokens }) => Int32Array.from(tokens));
    let line = 0;
    for (const tokens of inputs) {
      const encoder = passOf(engine, ENCODER, tokens, writer.shape.top);
      const records = fed.map((label): TraceRecord => {
        const decoder = passOf(engine, DECODER, label, writer.shape.top);
        engine.releaseSequences(Int32Array.of(DECODER));
        return { line: line++, input: tokens.length, stacks: [encoder, decoder] };
      });
      engine.releaseSequences(Int32Array.of(ENCODER));
      await writer.append(records);
    }
    await writer.finish();
  } finally {
    await writer.close();
    engine.close();
  }
}

/** Runs the tokens of a sequence in its stack, the decoder's behind the encoder's. */
function passOf(engine: Engine, sequence: number, tokens: Int32Array, top: number): StackRecord {
  const run = engine.runBatch(
    {
      stack: sequence - ENCODER,
      sequences: Int32Array.of(sequence),
      parents: Int32Array.of(sequence === DECODER ? ENCODER : NO_PARENT),
      offsets: Int32Array.of(0, tokens.length),
      tokens,
      routerLogits: true,
    },
    null,
  );
  return topExperts(run, tokens, engine.shape, top);
}
