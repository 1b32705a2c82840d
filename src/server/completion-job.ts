/** From a request to complete to the job that runs it. */
import type { z } from 'zod';
import type { JobRequest } from '../engine/messages.js';
import { SidaError } from '../errors.js';
import { requireModel, type ServerContext } from './context.js';
import { checkText, checkTokenIds, inputName, requireTokenizer } from './inputs.js';
import type { CompletionRequest } from './schemas/completions.js';

type Request = z.infer<typeof CompletionRequest>;
export type CompleteJob = Extract<JobRequest, { kind: 'complete' }>;

const DEFAULT_MAX_TOKENS = 16;

export function completionJob(context: ServerContext, request: Request): CompleteJob {
  const { options } = context;
  const model = requireModel(context, request.model);
  if ((request.temperature ?? 0) !== 0) {
    throw new SidaError({
      code: 'invalid_request',
      message: 'This server takes the likeliest token: "temperature" may only be 0',
      param: 'temperature',
    });
  }
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
    maxTokens,
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
