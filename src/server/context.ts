/** The dependencies of every route, and functions that choose a model and query its engine for them. */

import type { RequestHandler, Response } from 'express';
import type { KeyRing } from '../access/key-ring.js';
import type { ServeOptions } from '../config/options.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';
import type { ControlReply, ControlRequest, ModelInfo } from '../protocol/engine-messages.js';
import type { JobQueue } from '../queue/job-queue.js';
import { listed } from '../text/listed.js';
import type { Admission } from './admission/admission.js';
import type { Limiters } from './admission/rate-limit.js';
import type { AnswerWriter } from './answer-writer.js';
import type { BudgetKeeper, Keeper } from './budget/budget-keeper.js';
import { clientLeft } from './client-left.js';
import type { LoadedModels } from './loaded-models.js';
import type { RequestsInFlight } from './requests-in-flight.js';
import type { SharedBudget } from './shared-budget.js';
import type { StreamPlaces } from './stream-places.js';
import type { UnreadBytes } from './unread-bytes.js';

/** A served model, with what belongs to it alone. */
export interface ServedModel {
  /** Undefined for the only model of a server, whose name is known once it is open. */
  name: string | undefined;
  engine: EngineHandle;
  queue: JobQueue;
  /** Most jobs that may wait in `queue`. */
  queueBound: number;
  /** The options of the server, with the model's own where it has such. */
  options: ServeOptions;
  /** Those of the server, with the model's own for its jobs. */
  metrics: Metrics;
  /** Present with a latency target or --memory-pressure. */
  keeper?: BudgetKeeper | undefined;
}

export interface ServerDependencies {
  /** The first one runs requests that name no model. */
  models: readonly [ServedModel, ...ServedModel[]];
  options: ServeOptions;
  keys: KeyRing;
  logger: Logger;
  metrics: Metrics;
  /** Present when the models share a budget. */
  sharedBudget?: SharedBudget | undefined;
  /** Present with --keep-alive. */
  loaded?: LoadedModels | undefined;
  /** Present with --tracing. */
  spans?: RequestHandler | undefined;
  /** Count for --rate-limit and --rate-limit-bytes. Without them this process counts in memory. */
  limiters?: Limiters | undefined;
}

/** What a request to one model needs. */
export interface ModelContext extends ServedModel {
  keys: KeyRing;
  logger: Logger;
  /** Start of the server in Unix seconds. */
  startedAt: number;
  admission: Admission;
  writer: AnswerWriter;
  unread: UnreadBytes;
  inFlight: RequestsInFlight;
  /** The newest ones, oldest first. */
  budgetChanges: BudgetChange[];
}

export interface BudgetChange {
  /** In milliseconds since 1970. */
  time: number;
  from: number;
  to: number;
  by: 'page' | 'api' | Keeper;
  /** Name of the key; null without keys. */
  key: string | null;
}

export interface ServerContext extends Omit<ServerDependencies, 'models'> {
  models: readonly [ModelContext, ...ModelContext[]];
  streams: StreamPlaces;
  /** True from the first termination signal on. The server then refuses new requests. */
  draining: boolean;
}

function nameOf({ name, engine }: ServedModel): string | undefined {
  return name ?? engine.model?.name;
}

function notReady({ name, engine }: ServedModel): SidaError {
  const { phase } = engine.state;
  const which = name === undefined ? 'The model' : `The model ${JSON.stringify(name)}`;
  return new SidaError({ code: 'not_ready', message: `${which} is not ready: the engine is ${phase}` });
}

/**
 * The context of the model that a request asks for; without a name, that of the first. Throws model_not_found when no
 * model has the name, and not_ready before the name of the only model is known.
 */
export function selectModel({ models }: ServerContext, asked: string | null | undefined): ModelContext {
  if (asked == null) return models[0];
  const found = models.find((model) => nameOf(model) === asked);
  if (found !== undefined) return found;
  const unnamed = models.find((model) => nameOf(model) === undefined);
  if (unnamed !== undefined) throw notReady(unnamed);
  const names = models.map((model) => JSON.stringify(nameOf(model)));
  throw new SidaError({
    code: 'model_not_found',
    message: `The model ${JSON.stringify(asked.slice(0, 100))} is not served here; ${listed(names, 'and')} ${names.length === 1 ? 'is' : 'are'}`,
    param: 'model',
  });
}

/** As selectModel, for routes that must not guess: throws invalid_request without a name when there are several. */
export function selectOneModel(context: ServerContext, asked: string | null | undefined): ModelContext {
  const { models } = context;
  if (asked != null || models.length === 1) return selectModel(context, asked);
  const queries = models.map((model) => `?model=${encodeURIComponent(nameOf(model)!)}`);
  throw new SidaError({
    code: 'invalid_request',
    message: `This server has ${models.length} models: say which one with ${listed(queries, 'or')}`,
    param: 'model',
  });
}

/**
 * Calls `run` with what the engine says of its model, which is loaded until the promise that it returns is settled.
 * Rejects as requireModel does, and with `cancelled` when the client leaves before the model is loaded.
 */
export async function withModel<T>(
  { loaded }: ServerContext,
  served: ModelContext,
  res: Response,
  run: (model: ModelInfo) => Promise<T>,
): Promise<T> {
  if (loaded === undefined) return run(requireModel(served));
  const unuse = await loaded.use(served, clientLeft(res));
  try {
    return await run(requireModel(served));
  } finally {
    unuse();
  }
}

/**
 * What the engine says of its model, which stays known while the engine restarts. Throws not_ready before the engine
 * has first opened it.
 */
export function requireModel(context: ModelContext): ModelInfo {
  const { model } = context.engine;
  if (model === undefined) throw notReady(context);
  return model;
}

/**
 * Looks for something, such as a job, in one model after the other, and resolves with the first that is found. When
 * nothing is found and a model could not be asked, rejects with the first of these errors.
 */
export async function findInModels<T>(
  { models }: ServerContext,
  look: (context: ModelContext) => Promise<T | undefined>,
): Promise<T | undefined> {
  const errors: unknown[] = [];
  for (const model of models) {
    try {
      const found = await look(model);
      if (found !== undefined) return found;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return undefined;
}

/**
 * Sends a control request to the engine. Rejects with not_ready while the engine is not ready, and with
 * deadline_exceeded after the deadline of requests. `ask` sends it, by default at once.
 */
export async function control<K extends ControlRequest['kind']>(
  context: ModelContext,
  request: Extract<ControlRequest, { kind: K }>,
  ask = (own: typeof request): Promise<ControlReply> => context.engine.control(own),
): Promise<Extract<ControlReply, { kind: K }>> {
  const { engine, options } = context;
  if (engine.state.phase !== 'ready') throw notReady(context);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `The engine did not answer within ${options.deadline / 1000} s`;
    timer = setTimeout(() => reject(new SidaError({ code: 'deadline_exceeded', message })), options.deadline);
  });
  try {
    return (await Promise.race([ask(request), late])) as Extract<ControlReply, { kind: K }>;
  } finally {
    clearTimeout(timer);
  }
}
