import { isEncoderDecoder } from '../../native/model-shape.js';
import { DecoderOnly } from './decoder-only.js';
import { EncoderDecoder } from './encoder-decoder.js';
import type { KindOptions, ModelKind } from './model-kind.js';

/** Creates the ModelKind that turns inputs into passes for the engine's model. */
export function openKind(options: KindOptions): ModelKind {
  return isEncoderDecoder(options.engine.shape) ? new EncoderDecoder(options) : new DecoderOnly(options);
}
