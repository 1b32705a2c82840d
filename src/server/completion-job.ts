/** From a request to complete to the job that runs it. */
import { randomInt } from 'node:crypto';
import type { z } from 'zod';
import { SidaError } from '../errors.js';
import type { JobRequest, SamplingWish } from '../protocol/engine-messages.js';
import { requireModel, type ServerContext } from './context.js';
import { checkText, checkTokenIds, inputName, requireTokenizer } from './inputs.js';
import { LIMITS } from './limits.js';
import type { CompletionRequest } from './schemas/completions.js';

type Request = z.infer<typeof CompletionRequest>;
export type CompleteJob = Extract<JobRequest, { kind: 'complete' }>;

const DEFAULT_MAX_TOKENS = 16;
/** Seeds that are drawn. */
const SEEDS = 2 ** 48 - 1;

export function completionJob(context: ServerContext, request: Request): CompleteJob {
  const { options } = context;
  const model = requireModel(context, request.model);
  const list = isPromptList(request.prompt);
  const prompts = isPromptList(request.prompt) ? request.prompt : [request.prompt];
  for (const [index, prompt] of prompts.entries()) {
    const param = inputName('prompt', index, list);
    if (typeof prompt === 'string') {
      requireTokenizer(model, param);
      checkText(prompt, options, param);
    } else {
      checkTokenIds(prompt, model, options, param);
    }
  }
  const choices = request.n ?? 1;
  if (prompts.length * choices > LIMITS.allChoices) {
    throw new SidaError({
      code: 'invalid_request',
      message: `Expected at most ${LIMITS.allChoices} choices in one request, but ${prompts.length} prompts with "n" of ${choices} are ${prompts.length * choices}`,
      param: 'n',
    });
  }
  const sampling = samplingOf(request);
  const maxTokens = request.max_tokens ?? DEFAULT_MAX_TOKENS;
  if (maxTokens > options.kvTokens) {
    throw new SidaError({
      code: 'cannot_run',
      message: `Expected "max_tokens" to be at most ${options.kvTokens}, which is what the KV cache holds, but got ${maxTokens}`,
      param: 'max_tokens',
    });
  }
  const stop = typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []);
  if (stop.length > 0) requireTokenizer(model, 'stop');
  return {
    kind: 'complete',
    prompts,
    ...(choices > 1 && { choices }),
    maxTokens,
    ...(sampling && { sampling }),
    stop,
    logprobs: request.logprobs ?? null,
    stream: request.stream ?? false,
    showTokenIds: request.return_token_ids ?? false,
    explain: request.include?.includes('experts') ?? false,
    routing: { mode: request.routing ?? null, k: request.routing_k ?? null },
  };
}

function isPromptList(prompt: Request['prompt']): prompt is (string | number[])[] {
  return Array.isArray(prompt) && typeof prompt[0] !== 'number';
}

/** Undefined where the likeliest token is taken. A seed is drawn here, so that a run that is repeated gives the same text. */
function samplingOf(request: Request): SamplingWish | undefined {
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

/** The job as the request asks for it: without a seed that was drawn. */
export function askedJob(job: CompleteJob, request: Pick<Request, 'seed'>): unknown {
  if (job.sampling === undefined || request.seed != null) return job;
  return { ...job, sampling: { ...job.sampling, seed: null } };
}
