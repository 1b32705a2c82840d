import type { Response } from 'express';
import type { z } from 'zod';
import type { JobRequest, ModelInfo } from '../../engine/messages.js';
import { SidaError } from '../../errors.js';
import { CompletionAnswers } from '../completion-answer.js';
import { requireModel, type ServerContext } from '../context.js';
import { checkText, checkTokenIds, inputName, requireTokenizer } from '../inputs.js';
import { runJob } from '../jobs.js';
import { errorAnswer } from '../middleware/errors.js';
import { CompletionAnswer, CompletionRequest } from '../schemas/completions.js';
import { SseStream } from '../sse.js';
import { bodyRoute } from './route.js';

type Request = z.infer<typeof CompletionRequest>;
type CompleteJob = Extract<JobRequest, { kind: 'complete' }>;

const DEFAULT_MAX_TOKENS = 16;

export const completions = bodyRoute({
  method: 'post',
  path: '/v1/completions',
  scope: 'infer',
  summary: 'Completes each prompt; with `stream` as server-sent events that end with `[DONE]`',
  body: CompletionRequest,
  answers: { 200: { description: 'One choice for each prompt', schema: CompletionAnswer } },
  async handle(context, _req, res, request) {
    const model = requireModel(context, request.model);
    const job = toJob(context, model, request);
    const answers = new CompletionAnswers(model, res.locals.requestId as string, {
      returnTokenIds: request.return_token_ids ?? false,
      includeExperts: request.include?.includes('experts') ?? false,
      includeUsage: request.stream_options?.include_usage ?? false,
      logprobs: job.logprobs,
    });
    if (job.stream) return stream(context, res, job, answers);
    res.json(answers.whole(await runJob<'complete'>(context, res, job)));
  },
});

async function stream(
  context: ServerContext,
  res: Response,
  job: CompleteJob,
  answers: CompletionAnswers,
): Promise<void> {
  const abort = new AbortController();
  const events = new SseStream(res, () => {
    context.metrics.countSlowReader();
    context.logger.warn({ requestId: res.locals.requestId }, 'stream closed: its reader fell too far behind');
    abort.abort();
  });
  try {
    const result = await runJob<'complete'>(context, res, job, {
      abort,
      onDelta: (delta) => events.send(answers.piece(delta)),
    });
    const closing = answers.closing(result);
    if (closing !== undefined) events.send(closing);
    events.send('[DONE]');
  } catch (thrown) {
    const error = SidaError.from(thrown);
    if (!events.opened || error.code === 'cancelled') throw error;
    context.logger.error({ requestId: res.locals.requestId, err: error }, 'stream failed');
    events.send(errorAnswer(error));
  }
  events.end();
}

function toJob({ options }: ServerContext, model: ModelInfo, request: Request): CompleteJob {
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
    explain: request.include?.includes('experts') ?? false,
    routing: { mode: request.routing ?? null, k: request.routing_k ?? null },
  };
}

function isPromptList(prompt: Request['prompt']): prompt is (string | number[])[] {
  return Array.isArray(prompt) && typeof prompt[0] !== 'number';
}
