/** A prompt that its completions begin with: its text, and the log-probabilities of its tokens. */
import type { TokenLogprobs } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import { IncrementalDecoder } from '../../text/incremental-decoder.js';
import { type ChoiceTextOptions, charactersIn, namedToken } from '../shared/choice-text.js';

export class EchoedPrompt {
  readonly text: string;
  readonly logprobs: TokenLogprobs[] = [];
  readonly #tokenText: ChoiceTextOptions['tokenText'];
  readonly #decoder: IncrementalDecoder;
  #decoded = 0;

  /** `prompt` is a text or token ids; `tokens` are its token ids. */
  constructor(
    prompt: string | readonly number[],
    tokens: ArrayLike<number>,
    { decode, tokenText }: Pick<ChoiceTextOptions, 'decode' | 'tokenText'>,
  ) {
    this.text = typeof prompt === 'string' ? prompt : decode(prompt);
    this.#tokenText = tokenText;
    this.#decoder = new IncrementalDecoder(decode);
    // Nothing comes before the first token that could tell how likely it is.
    this.#add(tokens[0]!, null, []);
  }

  /** Takes the tokens in order, from the second on. */
  push({ id, logprobs }: GeneratedToken): void {
    this.#add(id, logprobs!.logprob, logprobs!.top);
  }

  #add(id: number, logprob: number | null, top: NonNullable<GeneratedToken['logprobs']>['top']): void {
    this.logprobs.push(
      namedToken(id, Math.min(this.#decoded, charactersIn(this.text)), { logprob, top }, this.#tokenText),
    );
    this.#decoded += charactersIn(this.#decoder.push(id));
  }
}
