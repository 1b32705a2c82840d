/** Converts a completion into the model's inputs: each prompt, with the choices to generate after it. */
import { SidaError } from '../../errors.js';
import type { ItemWork } from '../../protocol/item-work.js';
import { choiceSeed, type Sampling } from '../../protocol/sampling.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { requireEncoder } from '../shared/beams.js';
import {
  checkedInput,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import type { CompleteJob } from './job.js';

export function completeTexts(
  { prompts, maxTokens, stop }: CompleteJob,
  limits: ModelLimits,
): TextToEncode[] {
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) {
    const message = `Expected "max_tokens" to be a positive integer, found ${maxTokens}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'max_tokens' });
  }
  if (stop.includes('')) {
    throw new SidaError({ code: 'invalid_request', message: 'A stop string is empty', param: 'stop' });
  }
  if (stop.length > 0) requireTexts(limits, 'stop');
  const texts = prompts.filter((prompt) => typeof prompt === 'string');
  if (texts.length > 0) requireTexts(limits, 'prompt');
  return texts.map((text) => ({ text, special: true }));
}

export function completeInputs(
  job: CompleteJob,
  limits: ModelLimits,
  ids: readonly number[][],
): PreparedInput[] {
  const { prompts } = job;
  let texts = 0;
  const work = workOf(job, limits);
  return prompts.map((prompt, index) => {
    const tokens = typeof prompt === 'string' ? ids[texts++]! : prompt;
    return checkedInput({ tokens, work }, 'prompt', `Prompt ${index}`, limits);
  });
}

function workOf(job: CompleteJob, { shape }: ModelLimits): ItemWork {
  const { maxTokens, logprobs, search, forcedFirst, choices = 1 } = job;
  if (forcedFirst !== undefined) checkForced(forcedFirst, shape);
  const first = forcedFirst === undefined ? {} : { forcedFirst };
  if (search === undefined)
    return { kind: 'generate', maxTokens, logprobs, choices: choicesOf(job), ...first };
  requireEncoder(shape, 'num_beams', 'Beam search');
  return { kind: 'search', maxTokens, ...search, best: choices, ...first };
}

/** The server has checked its requests; a job can also come from elsewhere. */
function checkForced(id: number, shape: ModelLimits['shape']): void {
  requireEncoder(shape, 'forced_bos_token_id', 'A forced first token');
  if (id < shape.vocabSize) return;
  const message = `The token id ${id} is outside the vocabulary of ${shape.vocabSize}`;
  throw new SidaError({ code: 'invalid_request', message, param: 'forced_bos_token_id' });
}

/** Returns the sampling of each choice; null picks the most likely token. */
function choicesOf({ choices = 1, sampling }: CompleteJob): (Sampling | null)[] {
  return Array.from({ length: choices }, (_, choice) => {
    return sampling === undefined ? null : { ...sampling, seed: choiceSeed(sampling.seed, choice) };
  });
}
