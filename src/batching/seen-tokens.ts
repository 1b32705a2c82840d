/** The tokens of a sequence that penalties count. */
import type { LogitAdjustments } from '../protocol/sampling.js';

export class SeenTokens {
  readonly #counted: boolean;
  /** How often each token was generated; 0 if only the prompt has it. */
  readonly #times = new Map<number, number>();

  /** `prompt` is what the sequence has before its first generated token. */
  constructor(adjustments: LogitAdjustments | undefined, prompt: ArrayLike<number>) {
    const { presence = 0, frequency = 0, repetition = 1 } = adjustments ?? {};
    this.#counted = presence !== 0 || frequency !== 0 || repetition !== 1;
    if (repetition === 1) return;
    for (let i = 0; i < prompt.length; ++i) this.#times.set(prompt[i]!, 0);
  }

  /** Counts a generated token. */
  add(id: number): void {
    if (this.#counted) this.#times.set(id, (this.#times.get(id) ?? 0) + 1);
  }

  get times(): ReadonlyMap<number, number> {
    return this.#times;
  }
}
