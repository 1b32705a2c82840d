/** Prompts that are texts or token ids. */
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { type ModelLimits, requireTexts } from './prepared-input.js';

type Prompt = string | readonly number[];

export function promptStrings(prompts: readonly Prompt[]): string[] {
  return prompts.filter((prompt) => typeof prompt === 'string');
}

/** The number of token ids that the prompts give. */
export function promptIds(prompts: readonly Prompt[]): number {
  return prompts.reduce((sum, prompt) => sum + (typeof prompt === 'string' ? 0 : prompt.length), 0);
}

/** The texts to encode. Throws invalid_request if there are any and the model has no tokenizer. */
export function promptTexts(prompts: readonly Prompt[], param: string, limits: ModelLimits): TextToEncode[] {
  const texts = promptStrings(prompts);
  if (texts.length > 0) requireTexts(limits, param);
  return texts.map((text) => ({ text, special: true }));
}

/** The tokens of each prompt; `ids` are those of its texts. */
export function promptTokens(prompts: readonly Prompt[], ids: readonly Int32Array[]): Int32Array[] {
  let texts = 0;
  return prompts.map((prompt) =>
    typeof prompt === 'string' ? ids[texts++]! : Int32Array.from(prompt, orNone),
  );
}

/** What no vocabulary can have becomes -1, which `checkedInput` refuses. */
function orNone(id: number): number {
  return Number.isInteger(id) && id >= 0 && id < 2 ** 31 ? id : -1;
}
