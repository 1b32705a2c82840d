/** The engine's part of a completion: its prompts, its generation and its tokens. */

import { isEncoderDecoder } from '../../native/model-shape.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import type { ItemWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { requireEncoder } from '../shared/beams.js';
import { plainTexts } from '../shared/choice-text.js';
import { GeneratedChoices } from '../shared/generated-choices.js';
import { grammarWork } from '../shared/grammar-work.js';
import { chargedTokens, checkBiases } from '../shared/logit-adjustments.js';
import { checkLogprobs } from '../shared/logprobs.js';
import {
  checkedInput,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import { promptIds, promptStrings, promptTexts, promptTokens } from '../shared/prompts.js';
import { checkVocabulary, requirePositive } from '../shared/request-checks.js';
import { checkStops, choicesOf } from '../shared/sampling.js';
import type { StoredChoice } from '../shared/stored.js';
import { heldSchemas, ownSchemas } from '../shared/structure.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import { tokensLeft } from '../shared/tokens-left.js';
import type { JobResults, OwnResult, TaskTokens } from '../task.js';
import { EchoedPrompt } from './echoed-prompt.js';
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
  { prompts, maxTokens, stop, echo = false }: CompleteJob,
  limits: ModelLimits,
): TextToEncode[] {
  if (maxTokens > 0 || !echo) requirePositive(maxTokens, 'max_tokens');
  checkStops(stop);
  if (stop.length > 0) requireTexts(limits, 'stop');
  return promptTexts(prompts, 'prompt', limits);
}

export function completeInputs(
  job: CompleteJob,
  limits: ModelLimits,
  ids: readonly Int32Array[],
): PreparedInput[] {
  const work = workOf(job, limits);
  const prompts = promptTokens(job.prompts, ids);
  if (job.echo) checkEchoed(job, prompts);
  return prompts.map((tokens, index) => {
    const cut = job.cutToContext === true;
    const field = cut ? null : 'max_tokens';
    const own = cut ? cutTo(tokensLeft(tokens.length, job.choices ?? 1, limits), work) : work;
    return checkedInput({ tokens, work: own }, 'prompt', `Prompt ${index}`, limits, field);
  });
}

/** Refuses too many log-probabilities. The tokens of prompts are known only here; the server has counted the others. */
function checkEchoed(
  { choices = 1, maxTokens, logprobs }: CompleteJob,
  prompts: readonly Int32Array[],
): void {
  const tokens = prompts.reduce((sum, { length }) => sum + length + maxTokens, 0);
  checkLogprobs(tokens * choices, logprobs, 'logprobs');
}

function cutTo(most: number, work: ItemWork): ItemWork {
  if (work.kind !== 'generate') return work;
  return { ...work, maxTokens: Math.max(1, Math.min(most, work.maxTokens)) };
}

function workOf(job: CompleteJob, limits: ModelLimits): ItemWork {
  const { shape } = limits;
  const { logprobs, search, forcedFirst, adjustments, structure, choices = 1, echo = false } = job;
  // A prompt that is only scored runs as one whose generation ends at once.
  const maxTokens = Math.max(1, job.maxTokens);
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
      ...(echo && logprobs !== null && { promptLogprobs: true as const }),
      ...first,
      ...(job.tokenExperts && { experts: true as const }),
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
  readonly #job: CompleteJob;
  readonly #choices: GeneratedChoices;
  /** Empty if nothing is echoed. */
  readonly #echoed: EchoedPrompt[] = [];
  #beamTokens: number | undefined;

  constructor(job: CompleteJob, { shape, texts }: ModelLimits, inputs: readonly PreparedInput[]) {
    const { maxTokens, stop, prompts, logprobs, choices = 1, showSpecialTokens = false } = job;
    const plain = plainTexts(texts, showSpecialTokens);
    const options = { maxTokens, stop, endTokens: shape.tokens.end, ...plain, logprobs: logprobs !== null };
    this.#job = job;
    if (job.echo)
      this.#echoed = inputs.map(({ tokens }, at) => new EchoedPrompt(prompts[at]!, tokens, plain));
    this.#choices = new GeneratedChoices(prompts.length, choices, (input) => {
      const before = isEncoderDecoder(shape) ? undefined : inputs[input]?.tokens.at(-1);
      return { ...options, prefix: this.#echoed[input]?.text ?? '', before };
    });
  }

  token(input: number, token: GeneratedToken): CompletionDelta | undefined {
    if (token.ofPrompt) this.#echoed[input]?.push(token);
    else if (this.#job.maxTokens > 0) return this.#choices.token(input, token);
    return undefined;
  }

  beamTokens(tokens: number): void {
    this.#beamTokens = (this.#beamTokens ?? 0) + tokens;
  }

  finish(): OwnResult<CompleteResult> {
    const beamTokens = this.#beamTokens;
    const { choices, completionTokens } = this.#choices.finish();
    return {
      choices: choices.map((choice) => this.#withPrompt(choice)),
      completionTokens,
      ...(beamTokens !== undefined && { beamTokens }),
    };
  }

  #withPrompt(choice: StoredChoice): StoredChoice {
    const { choices: each = 1, maxTokens } = this.#job;
    const echoed = this.#echoed[Math.floor(choice.index / each)];
    if (echoed === undefined) return choice;
    const { text, logprobs } = choice;
    return {
      ...choice,
      text: maxTokens === 0 ? echoed.text : text,
      logprobs: logprobs && [...echoed.logprobs, ...logprobs],
    };
  }
}
