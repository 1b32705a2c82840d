/** Translates texts with models whose tokenizer has language codes, such as NLLB. */

import { SidaError } from '../../errors.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
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
import { costParts, usageAnswer } from '../shared/schema.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { AnswerAbout, JobResults, OwnResult, Task } from '../task.js';
import {
  storedForm,
  storedJob,
  storedResult,
  type TranslateForm,
  type TranslateJob,
  type TranslateResult,
} from './job.js';
import { prepareTranslate, type TranslateBody } from './request.js';
import { TranslateAnswer, TranslateRequest } from './schema.js';

/** The source's language code and the end token. */
const ADDED_TOKENS = 2;

export const translate: Task<TranslateBody, TranslateJob, TranslateResult, TranslateForm> = {
  kind: 'translate',
  route: {
    path: '/v1/translate',
    summary: 'Translates each input; for models whose tokenizer has language codes, such as NLLB',
    answer: 'One entry for each input',
  },
  jobType: 'translation',
  schemas: { request: TranslateRequest, answer: TranslateAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareTranslate,
  form: ({ showTokenIds = false, explain = false }) => ({ tokenIds: showTokenIds, experts: explain }),
  answers: (about) => ({ whole: (result) => translateAnswer(about, result) }),
  tokens: {
    input: ({ inputs }) => inputTokens(inputs) + ADDED_TOKENS * inputs.length,
    bytes: ({ inputs }) => heldBytes(inputs),
    cost: ({ inputs, maxTokens, search }) => {
      const each = ADDED_TOKENS + maxTokens * (search?.beams ?? 1);
      return { known: inputs.length * each, estimated: reservedTokens(inputs) };
    },
    texts: ({ inputs }) => inputs,
    used: (_job, { promptTokens, completionTokens, beamTokens = completionTokens }) =>
      promptTokens + beamTokens,
  },
  engine: {
    runs: 'model',
    texts: translateTexts,
    inputs: translateInputs,
    results: (job, limits) => new TranslateResults(job, limits),
  },
};

function translateTexts(job: TranslateJob, limits: ModelLimits): TextToEncode[] {
  requireEncoder(limits.shape, 'model', 'Translation');
  languageId(job.source, 'source', limits);
  languageId(job.target, 'target', limits);
  return job.inputs.map((text) => ({ text, special: false }));
}

function translateInputs(
  job: TranslateJob,
  limits: ModelLimits,
  ids: readonly Int32Array[],
): PreparedInput[] {
  const source = languageId(job.source, 'source', limits);
  const work = workOf(job, languageId(job.target, 'target', limits));
  const ends = limits.shape.tokens.end.slice(0, 1);
  return job.inputs.map((_, index) => {
    const own = ids[index]!;
    const tokens = new Int32Array(1 + own.length + ends.length);
    tokens[0] = source;
    tokens.set(own, 1);
    tokens.set(ends, 1 + own.length);
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

class TranslateResults implements JobResults<TranslateResult> {
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

function translateAnswer(
  { model, form }: AnswerAbout<TranslateForm>,
  result: TranslateResult,
): typeof TranslateAnswer._output {
  const { data } = result;
  return {
    object: 'translation',
    model,
    data: data.map(({ text, tokenIds, finishReason }, index) => ({
      index,
      text,
      finish_reason: finishReason,
      ...(form.tokenIds && { token_ids: tokenIds }),
    })),
    usage: usageAnswer(result),
    ...costParts(form, result),
  };
}
