/** The hash functions `lstm` and `attention`: one trained network per stack. */
import { NO_EXPERT, type Predictor } from '../../native/addon-types.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import type { DecoderStepper, HashFunction, HashInput, RoutingShape } from '../hash-function.js';
import { rowsBehind, withContexts } from '../sequence-contexts.js';
import { takeRows } from '../table-rows.js';
import { NetworkStepper, normalize } from './network-stepper.js';

export class NetworkFunction implements HashFunction {
  readonly name: NetworkName;
  readonly #shape: RoutingShape;
  readonly #networks: readonly (Predictor | null)[];

  /** One network per stack; a stack whose entry is null is not predicted. `close` closes the networks. */
  constructor(name: NetworkName, shape: RoutingShape, networks: readonly (Predictor | null)[]) {
    this.name = name;
    this.#shape = shape;
    this.#networks = networks;
  }

  fill(
    stack: number,
    input: HashInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    const network = this.#networks[stack];
    if (network == null) return false;
    const { layers } = this.#shape.stacks[stack]!;
    const known = Math.min(k, this.#shape.experts);
    const goesOn = !network.shape.summary && (input.contextTokens?.length ?? 0) > 0;
    if (known === k && !goesOn) {
      if (!network.predict(input, k, experts, alpha, chance)) return false;
      normalize(this.#shape, k, alpha);
      return true;
    }
    const whole = goesOn ? withContexts(input) : input;
    const entries = layers * whole.tokens.length * known;
    const best = {
      layers,
      tokens: whole.tokens.length,
      k: known,
      experts: new Uint16Array(entries),
      alpha: new Float32Array(entries),
      chance: new Float32Array(entries),
    };
    if (!network.predict(whole, known, best.experts, best.alpha, best.chance)) return false;
    normalize(this.#shape, known, best.alpha);
    const end = layers * input.tokens.length * k;
    experts.fill(NO_EXPERT, 0, end);
    alpha.fill(0, 0, end);
    chance.fill(0, 0, end);
    const rows = goesOn ? rowsBehind(input) : Array.from(input.tokens, (_, t) => t);
    takeRows(best, rows, { layers, tokens: input.tokens.length, k, experts, alpha, chance });
    return true;
  }

  stepper(): DecoderStepper | null {
    const network = this.#networks.at(-1);
    return network == null ? null : new NetworkStepper(network, this.#shape);
  }

  close(): void {
    for (const network of this.#networks) network?.close();
  }
}
