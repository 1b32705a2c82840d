/** Ollama's API, translated onto the tasks. */
import type { Response } from 'express';
import { SidaError } from '../../../errors.js';
import type { JobResult, ModelInfo } from '../../../protocol/engine-messages.js';
import type { ChatJob } from '../../../tasks/chat/job.js';
import type { CompleteJob } from '../../../tasks/complete/job.js';
import { type EmbedResult, ofLengthOne, valuesOf } from '../../../tasks/embed/job.js';
import { prepareEmbed } from '../../../tasks/embed/request.js';
import type { RequestLimits } from '../../../tasks/shared/request-checks.js';
import { VERSION } from '../../../version.js';
import { answerRequest } from '../../answer-request.js';
import { type ServerContext, withModel } from '../../context.js';
import { seesOthers } from '../../middleware/auth.js';
import { isQuote } from '../../quotes.js';
import { bodyRoute, type Route } from '../../route.js';
import { OBJECT_LINES } from '../../stream-answer.js';
import type { Dialect } from '../dialect.js';
import { withParam } from '../error-text.js';
import { asResponse, inMessage, LineAnswers, nanoseconds, type Said } from './answer.js';
import { keptMs } from './keep-alive.js';
import { listed, modelOf, running, servedName, shown } from './models.js';
import { pulledName, pullLines, pullWhole } from './pull.js';
import { chatJob, generateJob } from './request.js';
import {
  ChatAnswer,
  type ChatBody,
  ChatRequest,
  EmbedAnswer,
  EmbeddingsAnswer,
  EmbeddingsRequest,
  EmbedRequest,
  GenerateAnswer,
  type GenerateBody,
  GenerateRequest,
  IGNORED,
  OllamaError,
  ProgressAnswer,
  PullRequest,
  RunningAnswer,
  ShowAnswer,
  ShowRequest,
  TagsAnswer,
  VersionAnswer,
} from './schema.js';

/** The version of Ollama that these routes follow. Clients refuse to speak with older ones. */
const FOLLOWED = '0.12.0';

const chat = bodyRoute({
  method: 'post',
  path: '/api/chat',
  scope: 'infer',
  summary: "Answers a conversation in the shape of Ollama's, by default as lines of JSON",
  body: ChatRequest,
  quotes: true,
  ignores: IGNORED,
  answers: { 200: { description: 'The answer; its last line has counts and durations', schema: ChatAnswer } },
  error: OllamaError,
  handle(context, _req, res, body) {
    if ((body.messages ?? []).length === 0) return load(context, res, body, inMessage);
    return generate(context, res, body, inMessage, (model, limits) => chatJob(body, model, limits));
  },
});

const generation = bodyRoute({
  method: 'post',
  path: '/api/generate',
  scope: 'infer',
  summary: "Answers a prompt in the shape of Ollama's, by default as lines of JSON",
  body: GenerateRequest,
  quotes: true,
  ignores: IGNORED,
  answers: {
    200: { description: 'The answer; its last line has counts and durations', schema: GenerateAnswer },
  },
  error: OllamaError,
  handle(context, _req, res, body) {
    if (!body.prompt) return load(context, res, body, asResponse);
    return generate(context, res, body, asResponse, (model, limits) => generateJob(body, model, limits));
  },
});

async function generate(
  context: ServerContext,
  res: Response,
  body: ChatBody | GenerateBody,
  shape: (said: Said) => object,
  prepare: (model: ModelInfo, limits: RequestLimits) => ChatJob | CompleteJob,
): Promise<void> {
  const startedMs = performance.now();
  await answerRequest(
    context,
    res,
    servedName(context, body.model),
    (model, limits) => {
      const loadedMs = performance.now();
      const job = prepare(model, limits);
      keep(context, res, body);
      const about = { model: body.model ?? model.name, startedMs, loadedMs, shape };
      const thinking = body.think !== false;
      const logprobs = body.logprobs === true;
      return { job, answers: new LineAnswers({ ...about, thinking, logprobs }) };
    },
    OBJECT_LINES,
  );
}

/** Without anything to answer, such a request loads its model, or unloads it. */
async function load(
  context: ServerContext,
  res: Response,
  body: ChatBody | GenerateBody,
  shape: (said: Said) => object,
): Promise<void> {
  if (isQuote(res))
    throw new SidaError({
      code: 'invalid_request',
      message: 'There is nothing to quote: the request only loads or unloads its model',
    });
  const served = modelOf(context, body.model);
  const unloads = keep(context, res, body) && keptMs(body.keep_alive) === 0;
  if (!unloads) await withModel(context, served, res, async () => undefined);
  res.json({
    model: body.model ?? served.engine.model?.name ?? served.name,
    created_at: new Date().toISOString(),
    ...shape({ content: '', thinking: '', calls: [] }),
    done: true,
    done_reason: unloads ? 'unload' : 'load',
  });
}

/** Returns false where the caller has no say: of several keys none decides what the others find loaded. */
function keep(context: ServerContext, res: Response, body: Pick<ChatBody, 'model' | 'keep_alive'>): boolean {
  const { loaded, keys } = context;
  if (loaded === undefined || isQuote(res) || !seesOthers(res, keys)) return false;
  loaded.keep(modelOf(context, body.model), keptMs(body.keep_alive));
  return true;
}

const embed = bodyRoute({
  method: 'post',
  path: '/api/embed',
  scope: 'infer',
  summary: 'Mean of the last hidden states of each input, scaled to length 1',
  body: EmbedRequest,
  quotes: true,
  ignores: IGNORED,
  answers: { 200: { description: 'One embedding for each input', schema: EmbedAnswer } },
  error: OllamaError,
  handle(context, _req, res, body) {
    const startedMs = performance.now();
    const { input, dimensions } = body;
    return embedded(context, res, body, { input, dimensions }, (result, { name, loadedMs }) => ({
      model: body.model ?? name,
      embeddings: result.embeddings.map(ofLengthOne),
      total_duration: nanoseconds(performance.now() - startedMs),
      load_duration: nanoseconds(loadedMs - startedMs),
      prompt_eval_count: result.promptTokens,
    }));
  },
});

const embeddings = bodyRoute({
  method: 'post',
  path: '/api/embeddings',
  scope: 'infer',
  summary: 'Mean of the last hidden states of a prompt',
  body: EmbeddingsRequest,
  quotes: true,
  ignores: [],
  answers: { 200: { description: 'The embedding', schema: EmbeddingsAnswer } },
  error: OllamaError,
  handle(context, _req, res, body) {
    return embedded(context, res, body, { input: body.prompt }, (result) => ({
      embedding: valuesOf(result.embeddings[0]!),
    }));
  },
});

async function embedded(
  context: ServerContext,
  res: Response,
  body: Pick<ChatBody, 'model' | 'keep_alive'>,
  asked: Parameters<typeof prepareEmbed>[0],
  whole: (result: EmbedResult, about: { name: string; loadedMs: number }) => object,
): Promise<void> {
  await answerRequest(
    context,
    res,
    servedName(context, body.model),
    (model, limits) => {
      const about = { name: model.name, loadedMs: performance.now() };
      const { job } = prepareEmbed(asked, model, limits);
      keep(context, res, body);
      return { job, answers: { whole: (result: JobResult) => whole(result as EmbedResult, about) } };
    },
    OBJECT_LINES,
  );
}

const tags: Route = {
  method: 'get',
  path: '/api/tags',
  scope: 'infer',
  summary: 'The served models',
  answers: { 200: { description: 'Models', schema: TagsAnswer } },
  error: OllamaError,
  handle: ({ models }, _req, res) => void res.json(listed(models)),
};

const ps: Route = {
  method: 'get',
  path: '/api/ps',
  scope: 'infer',
  summary: 'The models in memory',
  answers: { 200: { description: 'Models', schema: RunningAnswer } },
  error: OllamaError,
  handle: (context, _req, res) => void res.json(running(context, seesOthers(res, context.keys))),
};

const show = bodyRoute({
  method: 'post',
  path: '/api/show',
  scope: 'infer',
  summary: 'One model; little before it was loaded',
  body: ShowRequest,
  ignores: ['verbose'],
  answers: { 200: { description: 'The model', schema: ShowAnswer } },
  error: OllamaError,
  handle: (context, _req, res, { model, name }) => void res.json(shown(modelOf(context, model ?? name))),
});

const version: Route = {
  method: 'get',
  path: '/api/version',
  scope: 'any',
  summary: 'The version of Ollama whose interface this is',
  answers: { 200: { description: 'The version', schema: VersionAnswer } },
  error: OllamaError,
  handle: (_context, _req, res) => void res.json({ version: FOLLOWED, sida: VERSION }),
};

const pull = bodyRoute({
  method: 'post',
  path: '/api/pull',
  scope: 'admin',
  summary: 'Downloads a model from Hugging Face; a server that is started with it serves it',
  body: PullRequest,
  ignores: [],
  answers: { 200: { description: 'Progress, by default as lines of JSON', schema: ProgressAnswer } },
  error: OllamaError,
  handle(context, _req, res, { model, name, stream }) {
    const given = model ?? name;
    if (given === undefined)
      throw new SidaError({
        code: 'invalid_request',
        message: 'The field "model" is missing',
        param: 'model',
      });
    const asked = pulledName(given);
    return stream === false ? pullWhole(res, asked) : pullLines(context, res, asked);
  },
});

export const ollama: Dialect = {
  prefix: '/api/',
  routes: [chat, generation, embed, embeddings, tags, ps, show, version, pull],
  error: (error) => ({ error: withParam(error) }),
};
