/** Routes about the service itself: health, metrics, models and the interface. */
import type { EnginePhase } from '../../engine/engine-handle.js';
import {
  expertsPerLayer,
  hasEncoder,
  isEncoderDecoder,
  kindOf,
  mostEncoderTokens,
} from '../../native/model-shape.js';
import { VERSION } from '../../version.js';
import { type ModelContext, requireModel, type ServerContext, selectModel } from '../context.js';
import { openApiDocument } from '../openapi.js';
import type { Route } from '../route.js';
import {
  LiveAnswer,
  ModelAnswer,
  ModelPath,
  ModelsAnswer,
  ReadyAnswer,
  type UnopenedModel,
  VersionAnswer,
} from '../schemas/service.js';

export const live: Route = {
  method: 'get',
  path: '/health/live',
  scope: 'public',
  summary: 'Whether the process answers',
  answers: { 200: { description: 'It does', schema: LiveAnswer } },
  handle(_context, _req, res) {
    res.json({ status: 'alive' });
  },
};

export const ready: Route = {
  method: 'get',
  path: '/health/ready',
  scope: 'public',
  summary: 'Whether requests are run now',
  answers: {
    200: { description: 'They are; `degraded`: those to some of several models are', schema: ReadyAnswer },
    503: { description: 'They are not, and why', schema: ReadyAnswer },
  },
  handle(context, _req, res) {
    const body = readiness(context);
    if (body.status === 'not_ready') res.status(503).setHeader('retry-after', '2');
    res.json(body);
  },
};

/** The path that most other engines have for it. */
export const health: Route = { ...ready, path: '/health' };

export const version: Route = {
  method: 'get',
  path: '/version',
  scope: 'any',
  summary: 'The version of the server',
  answers: { 200: { description: 'Its version', schema: VersionAnswer } },
  handle(_context, _req, res) {
    res.json({ version: VERSION });
  },
};

/** Fixed texts, because the engine's own may name files and this route is public. */
const REASONS: Record<Exclude<EnginePhase, 'ready'>, string> = {
  starting: 'The engine process is starting',
  converting: 'The checkpoint is being packed',
  idle: 'The model is loaded when a request comes',
  loading: 'The model is being loaded',
  restarting: 'The engine process stopped and is being started again',
  failed: 'The model cannot be served; the server log says why',
  closed: 'The engine is closed',
};

type Readiness = typeof ReadyAnswer._output;
type ModelReadiness = Omit<Readiness, 'models'>;

function readiness({ models, draining }: ServerContext): Readiness {
  if (draining) {
    return { status: 'not_ready', phase: 'draining', reason: 'The server is shutting down', progress: null };
  }
  const [first, ...others] = models;
  if (others.length === 0) return readinessOf(first);
  return combined(
    models.map((model) => ({
      id: model.name!,
      opened: model.engine.model !== undefined || model.engine.state.phase === 'idle',
      ...readinessOf(model),
    })),
  );
}

function readinessOf({ engine, queue }: ModelContext): ModelReadiness {
  const { phase, progress, error } = engine.state;
  if (queue.outage !== undefined) {
    return { status: 'not_ready', phase: 'queue_unavailable', reason: queue.outage, progress: null };
  }
  if (phase === 'ready' || phase === 'idle') return { status: 'ready', phase, reason: null, progress: null };
  const reason = error === undefined ? REASONS[phase] : `${REASONS[phase]} (${error.code})`;
  return { status: 'not_ready', phase, reason, progress: progress ?? null };
}

/**
 * A server of several models becomes ready when every one has been opened, so that a deployment waits for all. From
 * then on one ready model suffices: a restart of another engine must not take the whole server out of service.
 */
function combined(models: (ModelReadiness & { id: string; opened: boolean })[]): Readiness {
  const waiting = models.filter(({ status }) => status !== 'ready');
  const listed = models.map(({ id, status, phase, reason }) => ({ id, status, phase, reason }));
  const [first] = waiting;
  if (first === undefined)
    return { status: 'ready', phase: 'ready', reason: null, progress: null, models: listed };
  const degraded = waiting.length < models.length && models.every(({ opened }) => opened);
  const { id, phase, reason, progress } = models.find(({ opened }) => !opened) ?? first;
  return {
    status: degraded ? 'degraded' : 'not_ready',
    phase,
    reason: `${id}: ${reason}`,
    progress,
    models: listed,
  };
}

export const metrics: Route = {
  method: 'get',
  path: '/metrics',
  scope: 'metrics',
  summary: 'Metrics in the text format of Prometheus',
  answers: { 200: { description: 'Metrics', contentType: 'text/plain' } },
  async handle({ metrics }, _req, res) {
    const text = await metrics.text();
    res.setHeader('content-type', metrics.registry.contentType);
    res.end(text);
  },
};

/**
 * `table` is called at the first request, because the table contains this route itself. The document is public, since
 * it holds nothing of the models.
 */
export function openapiRoute(table: () => readonly Route[]): Route {
  let document: string | undefined;
  return {
    method: 'get',
    path: '/openapi.json',
    scope: 'public',
    summary: 'This interface as an OpenAPI 3.1 document',
    answers: { 200: { description: 'The document' } },
    handle(_context, _req, res) {
      document ??= JSON.stringify(openApiDocument(table()));
      res.type('application/json').send(document);
    },
  };
}

export const listModels: Route = {
  method: 'get',
  path: '/v1/models',
  scope: 'infer',
  summary: 'The served models; each is listed once it is open',
  answers: { 200: { description: 'Models', schema: ModelsAnswer } },
  handle(context, _req, res) {
    const open = context.models.filter(isListed);
    res.json({
      object: 'list',
      data: open.map((served) => (isOpen(served) ? describe(served) : unopened(served))),
    });
  },
};

export const getModel: Route = {
  method: 'get',
  path: '/v1/models/:id',
  scope: 'infer',
  summary: 'One model by its name',
  params: ModelPath,
  answers: { 200: { description: 'The model', schema: ModelAnswer } },
  handle(context, req, res) {
    const served = selectModel(context, String(req.params.id));
    res.json(isListed(served) && !isOpen(served) ? unopened(served) : describe(served));
  },
};

function isOpen({ engine }: ModelContext): boolean {
  return engine.model !== undefined;
}

function isListed(served: ModelContext): boolean {
  return isOpen(served) || served.engine.state.phase === 'idle';
}

function unopened({ startedAt, name, engine }: ModelContext): typeof UnopenedModel._output {
  return { id: name!, object: 'model', created: startedAt, owned_by: 'sida', state: engine.state.phase };
}

function describe(served: ModelContext): typeof ModelAnswer._output {
  const { startedAt, engine } = served;
  const model = requireModel(served);
  const { sampling, shape } = model;
  // An encoder takes its input in one pass.
  const { maxBatchTokens } = served.options;
  const context = hasEncoder(shape) ? mostEncoderTokens(shape, maxBatchTokens) : model.contextTokens;
  return {
    id: model.name,
    object: 'model',
    created: startedAt,
    owned_by: 'sida',
    fingerprint: model.fingerprint,
    identity: {
      weights: model.identity.weights,
      tokenizer: model.identity.tokenizer,
      tasks: model.identity.tasks,
      chat_template: model.identity.chatTemplate,
      generation_config: model.identity.generation,
    },
    description: model.description,
    tasks: model.tasks,
    has_tokenizer: model.hasTokenizer,
    languages: isEncoderDecoder(shape) ? model.languages : [],
    chat: model.chat !== null,
    sampling: sampling && {
      temperature: sampling.temperature,
      top_p: sampling.topP,
      top_k: sampling.topK,
      min_p: sampling.minP,
      repetition_penalty: sampling.repetitionPenalty,
    },
    expert_dtype: model.formats.experts.dtype,
    expert_group: model.formats.experts.group ?? null,
    dense_dtype: model.formats.dense.dtype,
    activations: model.activations,
    family: model.shape.family,
    kind: kindOf(shape),
    context_tokens: context,
    max_model_len: context,
    experts_per_layer: expertsPerLayer(shape),
    experts_per_token: model.shape.topK,
    moe_layers: model.shape.moeLayers,
    predictor: model.predictor.name,
    routing: model.routing,
    state: engine.state.phase,
  };
}
