/** Converts a completion into the model's inputs: each prompt, with the choices to generate after it. */
import type { ItemWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { requireEncoder } from '../shared/beams.js';
import { grammarWork } from '../shared/grammar-work.js';
import { checkBiases } from '../shared/logit-adjustments.js';
import {
  checkedInput,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import { promptTexts, promptTokens } from '../shared/prompts.js';
import { checkVocabulary, requirePositive } from '../shared/request-checks.js';
import { checkStops, choicesOf } from '../shared/sampling.js';
import { tokensLeft } from '../shared/tokens-left.js';
import type { CompleteJob } from './job.js';

export function completeTexts(
  { prompts, maxTokens, stop }: CompleteJob,
  limits: ModelLimits,
): TextToEncode[] {
  requirePositive(maxTokens, 'max_tokens');
  checkStops(stop);
  if (stop.length > 0) requireTexts(limits, 'stop');
  return promptTexts(prompts, 'prompt', limits);
}

export function completeInputs(
  job: CompleteJob,
  limits: ModelLimits,
  ids: readonly number[][],
): PreparedInput[] {
  const work = workOf(job, limits);
  return promptTokens(job.prompts, ids).map((tokens, index) => {
    const cut = job.cutToContext === true;
    const field = cut ? null : 'max_tokens';
    const own = cut ? cutTo(tokensLeft(tokens.length, job.choices ?? 1, limits), work) : work;
    return checkedInput({ tokens, work: own }, 'prompt', `Prompt ${index}`, limits, field);
  });
}

function cutTo(most: number, work: ItemWork): ItemWork {
  if (work.kind !== 'generate') return work;
  return { ...work, maxTokens: Math.max(1, Math.min(most, work.maxTokens)) };
}

function workOf(job: CompleteJob, limits: ModelLimits): ItemWork {
  const { shape } = limits;
  const { maxTokens, logprobs, search, forcedFirst, adjustments, structure, choices = 1 } = job;
  const content = structure?.content;
  const grammar = content && grammarWork({ kind: 'json', ...content }, 'response_format', limits);
  if (forcedFirst !== undefined) checkForced(forcedFirst, shape);
  const first = forcedFirst === undefined ? {} : { forcedFirst };
  if (adjustments) checkBiases(adjustments, shape);
  if (search === undefined) {
    return {
      kind: 'generate',
      maxTokens,
      logprobs,
      choices: choicesOf(job),
      ...first,
      ...(adjustments && { adjustments }),
      ...(grammar && { grammar }),
    };
  }
  requireEncoder(shape, 'num_beams', 'Beam search');
  return { kind: 'search', maxTokens, ...search, best: choices, ...first };
}

/** The server has checked its requests; a job can also come from elsewhere. */
function checkForced(id: number, shape: ModelLimits['shape']): void {
  requireEncoder(shape, 'forced_bos_token_id', 'A forced first token');
  checkVocabulary([id], shape, 'forced_bos_token_id');
}
