/** The `replay` hash function: the routing itself, of inputs that a trace has recorded. */
import { NO_EXPERT, type PredictorInput } from '../../native/addon-types.js';
import { type HashFunction, layersOf, type RoutingShape, type Side } from '../hash-function.js';
import { routerProbabilities } from '../training/router-probabilities.js';
import type { TeacherSource } from '../training/teacher.js';

/** Where a recorded side's routers sent its tokens: only the best expert of each. */
interface Routing {
  tokens: Int32Array;
  /** (layers, tokens). */
  experts: Uint16Array;
  /** (layers, tokens). */
  alpha: Float32Array;
}

export class ReplayFunction implements HashFunction {
  readonly name = 'replay';
  readonly #shape: RoutingShape;
  /** Both sides by the encoder's tokens. */
  readonly #recorded: ReadonlyMap<string, Record<Side, Routing>>;

  private constructor(shape: RoutingShape, recorded: ReadonlyMap<string, Record<Side, Routing>>) {
    this.#shape = shape;
    this.#recorded = recorded;
  }

  /** Holds about 4 bytes a token and 6 a token and layer. */
  static async load(source: TeacherSource): Promise<ReplayFunction> {
    const { experts } = source.shape;
    const recorded = new Map<string, Record<Side, Routing>>();
    for await (const { encoder, decoder, top } of source.records()) {
      const key = keyOf(encoder.tokens);
      const earlier = recorded.get(key);
      // The same input goes on the same way: the longest recording says most.
      if (earlier && earlier.decoder.tokens.length >= decoder.tokens.length) continue;
      recorded.set(key, {
        encoder: routingOf(encoder, top, experts),
        decoder: routingOf(decoder, top, experts),
      });
    }
    return new ReplayFunction(source.shape, recorded);
  }

  /** Different inputs held. */
  get size(): number {
    return this.#recorded.size;
  }

  /**
   * The decoder's input is found by its context: recorded where the tokens begin the recorded ones. False where
   * any sequence is not recorded.
   */
  fill(
    side: Side,
    input: PredictorInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    const { tokens, offsets } = input;
    const found: Routing[] = [];
    for (let s = 0; s + 1 < offsets.length; s++) {
      const own = tokens.subarray(offsets[s], offsets[s + 1]);
      const routing = side === 'encoder' ? this.#recorded.get(keyOf(own))?.encoder : this.#decoder(input, s);
      if (routing === undefined || !begins(routing.tokens, own)) return false;
      found.push(routing);
    }
    const layers = layersOf(this.#shape, side);
    experts.fill(NO_EXPERT, 0, layers * tokens.length * k);
    alpha.fill(0, 0, layers * tokens.length * k);
    chance.fill(0, 0, layers * tokens.length * k);
    for (let layer = 0; layer < layers; layer++) {
      found.forEach((routing, s) => {
        const from = layer * routing.tokens.length - offsets[s]!;
        for (let t = offsets[s]!; t < offsets[s + 1]!; t++) {
          const to = (layer * tokens.length + t) * k;
          experts[to] = routing.experts[from + t]!;
          alpha[to] = routing.alpha[from + t]!;
          chance[to] = 1;
        }
      });
    }
    return true;
  }

  close(): void {}

  #decoder({ contextTokens, contextOffsets }: PredictorInput, s: number): Routing | undefined {
    const context = contextTokens?.subarray(contextOffsets?.[s], contextOffsets?.[s + 1]);
    return context && this.#recorded.get(keyOf(context))?.decoder;
  }
}

/** Four characters of one byte a token: V8 keeps such a string in as many bytes. */
function keyOf(tokens: Int32Array): string {
  return Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength).toString('latin1');
}

function begins(whole: Int32Array, start: Int32Array): boolean {
  return start.length <= whole.length && start.every((token, i) => token === whole[i]);
}

function routingOf(
  { tokens, experts, logits }: { tokens: Int32Array; experts: Uint16Array; logits: Float32Array },
  top: number,
  perLayer: number,
): Routing {
  const rows = experts.length / top;
  const probabilities = new Float64Array(top);
  const alpha = Float32Array.from({ length: rows }, (_, row) => {
    routerProbabilities(logits, row * top, top, perLayer, probabilities);
    return probabilities[0]!;
  });
  return { tokens, experts: Uint16Array.from({ length: rows }, (_, row) => experts[row * top]!), alpha };
}
