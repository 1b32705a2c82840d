import type { EnginePhase } from '../../engine/engine-handle.js';
import type { ServerContext } from '../context.js';
import { LiveAnswer, ReadyAnswer } from '../schemas/service.js';
import type { Route } from './route.js';

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
    200: { description: 'They are', schema: ReadyAnswer },
    503: { description: 'They are not, and why', schema: ReadyAnswer },
  },
  handle(context, _req, res) {
    const answer = readiness(context);
    if (answer.status !== 'ready') res.status(503).setHeader('retry-after', '2');
    res.json(answer);
  },
};

/** Fixed texts, because the engine's own may name files and this route is public. */
const REASONS: Record<Exclude<EnginePhase, 'ready'>, string> = {
  starting: 'The engine process is starting',
  converting: 'The checkpoint is being packed',
  loading: 'The model is being loaded',
  restarting: 'The engine process stopped and is being started again',
  failed: 'The model cannot be served; the server log says why',
  closed: 'The engine is closed',
};

function readiness({ engine, queue, draining }: ServerContext): typeof ReadyAnswer._output {
  const { phase, progress, error } = engine.state;
  if (draining) {
    return { status: 'not_ready', phase: 'draining', reason: 'The server is shutting down', progress: null };
  }
  if (queue.outage !== undefined) {
    return { status: 'not_ready', phase: 'queue_unavailable', reason: queue.outage, progress: null };
  }
  if (phase === 'ready') return { status: 'ready', phase, reason: null, progress: null };
  const reason = error === undefined ? REASONS[phase] : `${REASONS[phase]} (${error.code})`;
  return { status: 'not_ready', phase, reason, progress: progress ?? null };
}
