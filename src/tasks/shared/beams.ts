/** Request fields of a beam search, with the names and defaults of Hugging Face transformers, and their checks. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelShape } from '../../native/addon-types.js';
import { isEncoderDecoder } from '../../native/model-shape.js';
import type { BeamSettings } from '../../protocol/item-work.js';

/** A pass has a row for each beam, and the KV cache reserves pages for each. */
const MOST_BEAMS = 16;
/** Beyond it, a length to this power is no longer a float32 with useful digits. */
const MOST_LENGTH_PENALTY = 5;

const numBeams = z.int().min(1).max(MOST_BEAMS);
const lengthPenalty = z.number().min(-MOST_LENGTH_PENALTY).max(MOST_LENGTH_PENALTY);
const earlyStopping = z.union([z.boolean(), z.literal('never')], {
  error: 'Expected true, false or "never"',
});

export const BEAM_FIELDS = {
  num_beams: numBeams.nullish().meta({
    description: 'Beams of a beam search; only for encoder-decoder models. Default 1: no beam search',
  }),
  length_penalty: lengthPenalty.nullish().meta({
    description:
      'A text scores the sum of its log-probabilities divided by its number of tokens to this power: above ' +
      '0 prefers longer texts, below 0 shorter ones. Default 1',
  }),
  early_stopping: earlyStopping.nullish().meta({
    description:
      'When the search ends, once `num_beams` texts have ended. true: at once; false: when no better one ' +
      'is likely; "never": when no better one is possible. Default false',
  }),
};

export type BeamFields = z.infer<z.ZodObject<typeof BEAM_FIELDS>>;

/** As a job stores it. */
export const storedBeams = z.object({ beams: numBeams.min(2), lengthPenalty, earlyStopping });

/** Returns undefined if the request asks for no beam search. Throws where the model has none. */
export function beamsOf(request: BeamFields, shape: ModelShape): BeamSettings | undefined {
  const { num_beams, length_penalty, early_stopping } = request;
  const beams = num_beams ?? 1;
  if (beams > 1) {
    requireEncoder(shape, 'num_beams', 'Beam search');
    return { beams, lengthPenalty: length_penalty ?? 1, earlyStopping: early_stopping ?? false };
  }
  if ((length_penalty ?? 1) !== 1) needsBeams('length_penalty');
  if ((early_stopping ?? false) !== false) needsBeams('early_stopping');
  return undefined;
}

function needsBeams(param: string): never {
  const message = `"${param}" has an effect only with "num_beams" above 1`;
  throw new SidaError({ code: 'invalid_request', message, param });
}

/** Throws cannot_run if the model has no encoder. `what` begins the message. */
export function requireEncoder(shape: ModelShape, param: string, what: string): void {
  if (isEncoderDecoder(shape)) return;
  const message = `${what} is for encoder-decoder models only; this model (${shape.family}) has no encoder`;
  throw new SidaError({ code: 'cannot_run', message, param });
}
