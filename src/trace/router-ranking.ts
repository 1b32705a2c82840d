/** Ranks the experts of a layer for each token of a pass as the routers did. */
import type { ModelShape, RunResult } from '../native/addon-types.js';

export class RouterRanking {
  readonly #run: RunResult;
  readonly #sigmoid: boolean;
  readonly #order: number[];
  readonly #chosen: boolean[];
  /**
   * Logits of the ranked row, by expert. Their softmax gives the probabilities of the router, or with sigmoids their
   * shares.
   */
  readonly logits: Float32Array;

  /** The pass must have run with router logits. */
  constructor(run: RunResult, { experts, sigmoid }: Pick<ModelShape, 'experts' | 'sigmoid'>) {
    this.#run = run;
    this.#sigmoid = sigmoid;
    this.#order = Array.from({ length: experts }, (_, e) => e);
    this.#chosen = new Array<boolean>(experts).fill(false);
    this.logits = new Float32Array(experts);
  }

  /**
   * The experts of a row (layer · tokens + token): those that the router chose, by falling logit, then the others. They
   * are not always the largest logits: groups or a correction may take part in the choice. An expert whose capacity
   * was used up counts as chosen by its logit. The next call overwrites the result and `logits`.
   */
  rank(row: number): readonly number[] {
    const { routerLogits, dispatch } = this.#run;
    const experts = this.#order.length;
    const topK = (dispatch.length * experts) / routerLogits!.length;
    const logits = routerLogits!.subarray(row * experts, (row + 1) * experts);
    for (let e = 0; e < experts; e++) {
      this.logits[e] = this.#sigmoid ? -Math.log1p(Math.exp(-logits[e]!)) : logits[e]!;
      this.#chosen[e] = false;
    }
    // NO_EXPERT is no index of an expert.
    for (const expert of dispatch.subarray(row * topK, (row + 1) * topK)) {
      if (expert < experts) this.#chosen[expert] = true;
    }
    const rankOf = (e: number) => (this.#chosen[e] ? 0 : 1);
    return this.#order.sort((a, b) => rankOf(a) - rankOf(b) || this.logits[b]! - this.logits[a]! || a - b);
  }
}
