/** Converts generated tokens into translations. */
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import { type ModelLimits, requireTexts } from '../shared/prepared-input.js';
import type { JobResults, OwnResult } from '../task.js';
import type { TranslateJob, TranslateResult } from './job.js';

export class TranslateResults implements JobResults<TranslateResult> {
  readonly #limits: ModelLimits;
  readonly #ids: number[][];
  #beamTokens: number | undefined;

  constructor({ inputs }: TranslateJob, limits: ModelLimits) {
    this.#limits = limits;
    this.#ids = inputs.map(() => []);
  }

  /** Returns no delta, because translations are not streamed. */
  token(input: number, { id }: GeneratedToken): undefined {
    this.#ids[input]!.push(id);
  }

  beamTokens(tokens: number): void {
    this.#beamTokens = (this.#beamTokens ?? 0) + tokens;
  }

  finish(): OwnResult<TranslateResult> {
    const texts = requireTexts(this.#limits, 'input');
    const { end } = this.#limits.shape.tokens;
    const data = this.#ids.map((tokenIds) => ({
      text: texts.decode(tokenIds, true),
      tokenIds,
      finishReason: end.includes(tokenIds.at(-1)!) ? ('stop' as const) : ('length' as const),
    }));
    const completionTokens = this.#ids.reduce((sum, ids) => sum + ids.length, 0);
    const beamTokens = this.#beamTokens;
    return { data, completionTokens, ...(beamTokens !== undefined && { beamTokens }) };
  }
}
