/** The engine's part of a completion: its prompts, its generation and its tokens. */

import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import type { ItemWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { requireEncoder } from '../shared/beams.js';
import { plainTexts } from '../shared/choice-text.js';
import { GeneratedChoices } from '../shared/generated-choices.js';
import { grammarWork } from '../shared/grammar-work.js';
import { chargedTokens, checkBiases } from '../shared/logit-adjustments.js';
import {
  checkedInput,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import { promptIds, promptStrings, promptTexts, promptTokens } from '../shared/prompts.js';
import { checkVocabulary, requirePositive } from '../shared/request-checks.js';
import { checkStops, choicesOf } from '../shared/sampling.js';
import { heldSchemas, ownSchemas } from '../shared/structure.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import { tokensLeft } from '../shared/tokens-left.js';
import type { JobResults, OwnResult, TaskTokens } from '../task.js';
import type { CompleteJob, CompleteResult } from './job.js';

export const completeTokens: TaskTokens<CompleteJob, CompleteResult> = {
  input: ({ prompts }) => inputTokens(prompts),
  bytes: ({ prompts, structure, adjustments }) =>
    heldBytes([...prompts, ...heldSchemas(structure), ...(adjustments?.biases ?? [])]),
  cost({ prompts, structure, maxTokens, choices = 1, search, adjustments }) {
    const made = chargedTokens({ adjustments }) * maxTokens * prompts.length * (search?.beams ?? choices);
    const texts = [...promptStrings(prompts), ...ownSchemas(structure)];
    return { known: promptIds(prompts) + made, estimated: reservedTokens(texts) };
  },
  texts: ({ prompts, structure }) => [...promptStrings(prompts), ...ownSchemas(structure)],
  used: (job, { promptTokens, completionTokens, beamTokens = completionTokens }) =>
    promptTokens + chargedTokens(job) * beamTokens,
};

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

export class CompleteResults implements JobResults<CompleteResult> {
  readonly #choices: GeneratedChoices;
  #beamTokens: number | undefined;

  constructor(job: CompleteJob, { shape, texts }: ModelLimits) {
    const { maxTokens, stop, prompts, logprobs, choices = 1, showSpecialTokens = false } = job;
    const options = {
      maxTokens,
      stop,
      endTokens: shape.tokens.end,
      ...plainTexts(texts, showSpecialTokens),
      logprobs: logprobs !== null,
    };
    this.#choices = new GeneratedChoices(prompts.length, choices, () => options);
  }

  token(input: number, token: GeneratedToken): CompletionDelta | undefined {
    return this.#choices.token(input, token);
  }

  beamTokens(tokens: number): void {
    this.#beamTokens = (this.#beamTokens ?? 0) + tokens;
  }

  finish(): OwnResult<CompleteResult> {
    const beamTokens = this.#beamTokens;
    return { ...this.#choices.finish(), ...(beamTokens !== undefined && { beamTokens }) };
  }
}
