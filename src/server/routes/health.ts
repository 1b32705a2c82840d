import type { EnginePhase } from '../../engine/engine-handle.js';
import type { ModelContext, ServerContext } from '../context.js';
import { LiveAnswer, ReadyAnswer } from '../schemas/service.js';
import type { Route } from './route.js';

export const LIVE = { status: 'alive' };

export const live: Route = {
  method: 'get',
  path: '/health/live',
  scope: 'public',
  summary: 'Whether the process answers',
  answers: { 200: { description: 'It does', schema: LiveAnswer } },
  handle(_context, _req, res) {
    res.json(LIVE);
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
    const { status, headers, body } = readyAnswer(context);
    res.status(status).set(headers).json(body);
  },
};

export function readyAnswer(context: ServerContext) {
  const body = readiness(context);
  if (body.status !== 'not_ready') return { status: 200, headers: {}, body };
  return { status: 503, headers: { 'retry-after': '2' }, body };
}

/** Fixed texts, because the engine's own may name files and this route is public. */
const REASONS: Record<Exclude<EnginePhase, 'ready'>, string> = {
  starting: 'The engine process is starting',
  converting: 'The checkpoint is being packed',
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
      opened: model.engine.model !== undefined,
      ...readinessOf(model),
    })),
  );
}

function readinessOf({ engine, queue }: ModelContext): ModelReadiness {
  const { phase, progress, error } = engine.state;
  if (queue.outage !== undefined) {
    return { status: 'not_ready', phase: 'queue_unavailable', reason: queue.outage, progress: null };
  }
  if (phase === 'ready') return { status: 'ready', phase, reason: null, progress: null };
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
