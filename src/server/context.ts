/** The dependencies of every route, and functions that query the engine for them. */

import type { RateLimiterAbstract } from 'rate-limiter-flexible';
import type { KeyRing } from '../access/key-ring.js';
import type { ServeOptions } from '../config/options.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';
import type { ControlReply, ControlRequest, ModelInfo } from '../protocol/engine-messages.js';
import type { JobQueue } from '../queue/job-queue.js';
import type { Admission } from './admission/admission.js';
import type { StreamPlaces } from './stream-places.js';

export interface ServerDependencies {
  engine: EngineHandle;
  queue: JobQueue;
  options: ServeOptions;
  keys: KeyRing;
  logger: Logger;
  metrics: Metrics;
  /** Counts the tokens of --rate-limit. When undefined, this process counts them in memory. */
  rateLimiter?: RateLimiterAbstract | undefined;
}

export interface ServerContext extends ServerDependencies {
  /** Start of the server in Unix seconds. */
  startedAt: number;
  admission: Admission;
  streams: StreamPlaces;
  /** True from the first termination signal on. The server then refuses new requests. */
  draining: boolean;
}

function notReady({ engine }: ServerContext): SidaError {
  const { phase } = engine.state;
  return new SidaError({ code: 'not_ready', message: `The model is not ready: the engine is ${phase}` });
}

/**
 * The served model, which stays known while the engine restarts. Throws not_ready before the engine has first opened
 * it, and model_not_found when `asked` is another name.
 */
export function requireModel(context: ServerContext, asked?: string): ModelInfo {
  const { model } = context.engine;
  if (model === undefined) throw notReady(context);
  if (asked !== undefined && asked !== model.name) {
    throw new SidaError({
      code: 'model_not_found',
      message: `The model ${JSON.stringify(asked.slice(0, 100))} is not served here; ${JSON.stringify(model.name)} is`,
      param: 'model',
    });
  }
  return model;
}

/**
 * Sends a control request to the engine. Rejects with not_ready while the engine is not ready, and with
 * deadline_exceeded after the deadline of requests.
 */
export async function control<K extends ControlRequest['kind']>(
  context: ServerContext,
  request: Extract<ControlRequest, { kind: K }>,
): Promise<Extract<ControlReply, { kind: K }>> {
  const { engine, options } = context;
  if (engine.state.phase !== 'ready') throw notReady(context);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `The engine did not answer within ${options.deadline / 1000} s`;
    timer = setTimeout(() => reject(new SidaError({ code: 'deadline_exceeded', message })), options.deadline);
  });
  try {
    return (await Promise.race([engine.control(request), late])) as Extract<ControlReply, { kind: K }>;
  } finally {
    clearTimeout(timer);
  }
}
