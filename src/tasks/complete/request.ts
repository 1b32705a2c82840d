/** Converts a completion request into its job. */
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import { isEncoderDecoder } from '../../native/model-shape.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { beamsOf, requireEncoder } from '../shared/beams.js';
import { formatOf } from '../shared/conversation-schema.js';
import { adjustmentsOf } from '../shared/logit-adjustments.js';
import { checkLogprobs } from '../shared/logprobs.js';
import {
  checkedPrompts,
  checkMaxTokens,
  checkTokenIds,
  type RequestLimits,
  requireDecoder,
  requireTokenizer,
} from '../shared/request-checks.js';
import { runFieldsOf } from '../shared/run-fields.js';
import { samplingOf, stopsOf, withoutDrawnSeed } from '../shared/sampling.js';
import { streamUsageOf } from '../shared/stream-options.js';
import { contentStructure } from '../shared/structure.js';
import { tokenExpertsOf } from '../shared/token-experts.js';
import type { PreparedJob } from '../task.js';
import type { CompleteJob } from './job.js';
import type { CompletionRequest } from './schema.js';

export type CompleteBody = z.infer<typeof CompletionRequest>;

const DEFAULT_MAX_TOKENS = 16;
/** Most choices of all prompts of a request together. */
const MOST_CHOICES_TOGETHER = 64;

export function prepareComplete(
  request: CompleteBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<CompleteJob> {
  requireDecoder(model.shape);
  const prompts = checkedPrompts(request.prompt, 'prompt', model, limits);
  const choices = request.n ?? 1;
  checkChoices(prompts.length, choices);
  checkBestOf(request.best_of ?? choices, choices);
  const search = beamsOf(request, model.shape);
  if (search !== undefined) checkBeside(search.beams, request);
  // A beam search takes the likeliest texts.
  const own = search === undefined ? model.sampling : null;
  const sampling = samplingOf(request, own);
  const adjustments = adjustmentsOf(request, { ...model, sampling: own });
  const forcedFirst = forcedTokenOf(request, model, limits);
  const maxTokens = request.max_tokens ?? DEFAULT_MAX_TOKENS;
  const echo = echoOf(request, model);
  checkMaxTokens(maxTokens, model);
  checkLogprobs(prompts.length * choices * maxTokens, request.logprobs ?? null, 'logprobs');
  const stop = stopsOf(request);
  if (stop.length > 0) requireTokenizer(model, 'stop');
  const content = contentStructure(formatOf(request.response_format), 'response_format');
  if (content !== undefined) checkStructured(forcedFirst, model);
  const job: CompleteJob = {
    kind: 'complete',
    prompts,
    ...(choices > 1 && { choices }),
    maxTokens,
    ...(sampling && { sampling }),
    ...(adjustments && { adjustments }),
    ...(search && { search }),
    ...(forcedFirst !== null && { forcedFirst }),
    stop,
    ...(echo && { echo }),
    logprobs: request.logprobs ?? null,
    ...(content && { structure: { content } }),
    stream: request.stream ?? false,
    ...(request.skip_special_tokens === false && { showSpecialTokens: true }),
    showTokenIds: request.return_token_ids ?? false,
    ...runFieldsOf(request),
    ...tokenExpertsOf({ include: request.include, tokens: prompts.length * choices * maxTokens }),
  };
  return { job, asked: withoutDrawnSeed(job, request), streamUsage: streamUsageOf(request) };
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

function checkBestOf(bestOf: number, choices: number): void {
  if (bestOf === choices) return;
  const instead = bestOf > choices ? `: ask for ${bestOf} choices with "n" and choose` : '';
  throw new SidaError({
    code: 'invalid_request',
    message: `Expected "best_of" to be as large as "n", which is ${choices}, but got ${bestOf}${instead}`,
    param: 'best_of',
  });
}

function echoOf(request: CompleteBody, model: ModelInfo): boolean {
  const { echo, max_tokens: maxTokens, logprobs, stream } = request;
  const refuse = (message: string, param: string) =>
    new SidaError({ code: 'invalid_request', message, param });
  if (echo !== true) {
    if (maxTokens === 0) throw refuse('"max_tokens" of 0 needs "echo" to be true', 'max_tokens');
    return false;
  }
  if (isEncoderDecoder(model.shape)) {
    throw refuse('"echo" is for decoder-only models: this one has an encoder for its prompts', 'echo');
  }
  if (stream === true && (logprobs != null || maxTokens === 0)) {
    const beside = logprobs != null ? '"logprobs"' : '"max_tokens" of 0';
    throw refuse(`"echo" with ${beside} is not streamed; leave out "stream"`, 'stream');
  }
  return true;
}

/** Fields that a beam search has no use for. A value that changes nothing is accepted. */
const BESIDE_BEAMS = {
  temperature: (value) => value === 0,
  top_p: (value) => value === 1,
  top_k: (value) => value === 0,
  min_p: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  repetition_penalty: (value) => value === 1,
  logit_bias: (value) => Object.keys(value as object).length === 0,
  seed: () => false,
  stream: (value) => value === false,
  echo: (value) => value === false,
  stop: (value) => Array.isArray(value) && value.length === 0,
  logprobs: () => false,
  response_format: (value) => (value as { type?: string }).type === 'text',
  include: (value) => !(value as string[]).includes('token_experts'),
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

function checkStructured(forcedFirst: number | null, model: ModelInfo): void {
  requireTokenizer(model, 'response_format');
  if (forcedFirst === null) return;
  const message = '"forced_bos_token_id" cannot stand beside "response_format"';
  throw new SidaError({ code: 'invalid_request', message, param: 'forced_bos_token_id' });
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
