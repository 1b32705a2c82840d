/**
 * Converts a translation into the model's inputs, as the tokenizer of NLLB writes them: the source's language code, the
 * text, the end token. The model's answer is made to begin with the target's language code.
 */
import { SidaError } from '../../errors.js';
import type { ItemWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { nearest } from '../../text/nearest.js';
import { requireEncoder } from '../shared/beams.js';
import {
  checkedInput,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import type { TranslateJob } from './job.js';

export function translateTexts(job: TranslateJob, limits: ModelLimits): TextToEncode[] {
  requireEncoder(limits.shape, 'model', 'Translation');
  languageId(job.source, 'source', limits);
  languageId(job.target, 'target', limits);
  return job.inputs.map((text) => ({ text, special: false }));
}

export function translateInputs(
  job: TranslateJob,
  limits: ModelLimits,
  ids: readonly number[][],
): PreparedInput[] {
  const source = languageId(job.source, 'source', limits);
  const work = workOf(job, languageId(job.target, 'target', limits));
  const ends = limits.shape.tokens.end.slice(0, 1);
  return job.inputs.map((_, index) => {
    const tokens = [source, ...ids[index]!, ...ends];
    return checkedInput({ tokens, work }, 'input', `Input ${index}`, limits);
  });
}

function workOf({ maxTokens, search }: TranslateJob, forcedFirst: number): ItemWork {
  return search === undefined
    ? { kind: 'generate', maxTokens, logprobs: null, choices: [null], forcedFirst }
    : { kind: 'search', maxTokens, ...search, best: 1, forcedFirst };
}

function languageId(code: string, param: string, limits: ModelLimits): number {
  const { languages } = requireTexts(limits, 'input');
  if (languages.size === 0) {
    const message =
      'This model does not name languages: its tokenizer has no language codes such as eng_Latn among its ' +
      'special tokens, so it serves no translations. Send its prompts to /v1/completions';
    throw new SidaError({ code: 'invalid_request', message, param: 'model' });
  }
  const id = languages.get(code);
  if (id !== undefined) return id;
  const meant = nearest(code, languages.keys());
  const hint =
    meant === undefined
      ? `such as ${[...languages.keys()].slice(0, 3).join(', ')}`
      : `did you mean ${meant}?`;
  const message = `The tokenizer has no language ${JSON.stringify(code.slice(0, 32))} among its ${languages.size} language codes, ${hint}`;
  throw new SidaError({ code: 'invalid_request', message, param, details: { languages: languages.size } });
}
