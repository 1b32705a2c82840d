/** Converts a completion request into its job. */
import { randomInt } from 'node:crypto';
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo, SamplingWish } from '../../protocol/engine-messages.js';
import { beamsOf, requireEncoder } from '../shared/beams.js';
import {
  checkMaxTokens,
  checkText,
  checkTokenIds,
  inputName,
  type RequestLimits,
  requireTokenizer,
} from '../shared/request-checks.js';
import type { PreparedJob } from '../task.js';
import type { CompleteJob } from './job.js';
import type { CompletionRequest } from './schema.js';

export type CompleteBody = z.infer<typeof CompletionRequest>;

const DEFAULT_MAX_TOKENS = 16;
/** Most choices of all prompts of a request together. */
const MOST_CHOICES_TOGETHER = 64;
/** Most log-probabilities in one answer. */
const MOST_LOGPROBS_TOGETHER = 262_144;
/** Drawn seeds are below this number. */
const SEEDS = 2 ** 48 - 1;

export function prepareComplete(
  request: CompleteBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<CompleteJob> {
  const prompts = checkedPrompts(request, model, limits);
  const choices = request.n ?? 1;
  checkChoices(prompts.length, choices);
  const search = beamsOf(request, model.shape);
  if (search !== undefined) checkBeside(search.beams, request);
  const sampling = samplingOf(request);
  const forcedFirst = forcedTokenOf(request, model, limits);
  const maxTokens = request.max_tokens ?? DEFAULT_MAX_TOKENS;
  checkMaxTokens(maxTokens, limits);
  checkLogprobs(prompts.length * choices * maxTokens, request.logprobs ?? null);
  const stop = typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []);
  if (stop.length > 0) requireTokenizer(model, 'stop');
  const job: CompleteJob = {
    kind: 'complete',
    prompts,
    ...(choices > 1 && { choices }),
    maxTokens,
    ...(sampling && { sampling }),
    ...(search && { search }),
    ...(forcedFirst !== null && { forcedFirst }),
    stop,
    logprobs: request.logprobs ?? null,
    stream: request.stream ?? false,
    ...(request.skip_special_tokens === false && { showSpecialTokens: true }),
    showTokenIds: request.return_token_ids ?? false,
    explain: request.include?.includes('experts') ?? false,
    routing: { mode: request.routing ?? null, k: request.routing_k ?? null },
  };
  const streamUsage = request.stream_options?.include_usage ?? false;
  return { job, asked: withoutDrawnSeed(job, request), streamUsage };
}

function checkedPrompts(
  { prompt }: CompleteBody,
  model: ModelInfo,
  limits: RequestLimits,
): (string | number[])[] {
  const list = isPromptList(prompt);
  const prompts = isPromptList(prompt) ? prompt : [prompt];
  for (const [index, each] of prompts.entries()) {
    const param = inputName('prompt', index, list);
    if (typeof each === 'string') {
      requireTokenizer(model, param);
      checkText(each, limits, param);
    } else {
      checkTokenIds(each, model, limits, param);
    }
  }
  return prompts;
}

function isPromptList(prompt: CompleteBody['prompt']): prompt is (string | number[])[] {
  return Array.isArray(prompt) && typeof prompt[0] !== 'number';
}

function checkChoices(prompts: number, choices: number): void {
  const all = prompts * choices;
  if (all <= MOST_CHOICES_TOGETHER) return;
  throw new SidaError({
    code: 'invalid_request',
    message: `Expected at most ${MOST_CHOICES_TOGETHER} choices in one request, but ${prompts} prompts with "n" of ${choices} are ${all}`,
    param: 'n',
  });
}

/** Fields that a beam search has no use for. A value that changes nothing is accepted. */
const BESIDE_BEAMS = {
  temperature: (value) => value === 0,
  top_p: (value) => value === 1,
  top_k: (value) => value === 0,
  min_p: (value) => value === 0,
  seed: () => false,
  stream: (value) => value === false,
  stop: (value) => Array.isArray(value) && value.length === 0,
  logprobs: () => false,
} satisfies { [name in keyof CompleteBody]?: (value: unknown) => boolean };

function checkBeside(beams: number, request: CompleteBody): void {
  for (const [param, changesNothing] of Object.entries(BESIDE_BEAMS)) {
    const value = request[param as keyof typeof BESIDE_BEAMS];
    if (value == null || changesNothing(value)) continue;
    const why =
      param === 'stream' ? 'a beam search knows its text only when it ends' : 'a beam search takes none';
    const message = `"${param}" cannot stand beside "num_beams" of ${beams}: ${why}`;
    throw new SidaError({ code: 'invalid_request', message, param });
  }
  const choices = request.n ?? 1;
  if (choices <= beams) return;
  throw new SidaError({
    code: 'invalid_request',
    message: `Expected "n" to be at most "num_beams", but ${choices} texts are asked of ${beams} beams`,
    param: 'n',
  });
}

function forcedTokenOf(
  { forced_bos_token_id: id = null }: CompleteBody,
  model: ModelInfo,
  limits: RequestLimits,
): number | null {
  if (id === null) return null;
  requireEncoder(model.shape, 'forced_bos_token_id', 'A forced first token');
  checkTokenIds([id], model, limits, 'forced_bos_token_id');
  return id;
}

/** Checks the size of the answer: each log-probability takes about a hundred bytes. */
function checkLogprobs(tokens: number, logprobs: number | null): void {
  if (logprobs === null) return;
  const all = tokens * (1 + logprobs);
  if (all <= MOST_LOGPROBS_TOGETHER) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `Expected at most ${MOST_LOGPROBS_TOGETHER} log-probabilities in one answer, but ${tokens} tokens of all choices with "logprobs" of ${logprobs} are ${all}`,
    param: 'logprobs',
    details: { tokens, logprobs: all, limit: MOST_LOGPROBS_TOGETHER },
  });
}

/** Returns undefined for greedy decoding. The seed is drawn here, so that a repeated run gives the same text. */
function samplingOf(request: CompleteBody): SamplingWish | undefined {
  const temperature = request.temperature ?? 0;
  if (temperature === 0) return undefined;
  return {
    temperature,
    topP: request.top_p ?? 1,
    topK: request.top_k ?? 0,
    minP: request.min_p ?? 0,
    seed: request.seed ?? randomInt(SEEDS),
  };
}

function withoutDrawnSeed(job: CompleteJob, { seed }: CompleteBody): unknown {
  if (job.sampling === undefined || seed != null) return job;
  return { ...job, sampling: { ...job.sampling, seed: null } };
}
