/** How long an answer may become. */
import { isEncoderDecoder } from '../../native/model-shape.js';
import type { ModelLimits } from './prepared-input.js';

/** Tokens that each choice may have beside a prompt. The last token of a generation is not fed. */
export function tokensLeft(prompt: number, choices: number, limits: ModelLimits): number {
  const { contextTokens: context, kvPages, kvPageTokens, shape } = limits;
  if (choices === 1 && !isEncoderDecoder(shape)) return context - prompt + 1;
  // The choices share the whole pages of the prompt.
  const pages = kvPages - Math.ceil(prompt / kvPageTokens);
  const cache = (Math.floor(pages / choices) - 1) * kvPageTokens;
  return Math.min(cache, context - prompt + 1);
}
