/** Routes of operators: memory, prediction and profiles of a running engine. Each is about one model. */
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Request } from 'express';
import { z } from 'zod';
import { ANYONE } from '../../access/key-ring.js';
import { SidaError } from '../../errors.js';
import { overlapBound } from '../../inference/speed-estimate.js';
import type { DeviceUsage, PeerLink } from '../../native/addon-types.js';
import type { ControlReply, EngineCounters, MemorySplit } from '../../protocol/engine-messages.js';
import { changeBudget } from '../budget/change-budget.js';
import { clientLeft } from '../client-left.js';
import { control, type ModelContext, type ServerContext, selectOneModel } from '../context.js';
import { callerOf } from '../middleware/auth.js';
import { bodyRoute, type Route } from '../route.js';
import {
  BudgetAnswer,
  BudgetRequest,
  CancelAnswer,
  ExpertsAnswer,
  PredictorAnswer,
  PredictorRequest,
  ProfileRequest,
  RequestPath,
} from '../schemas/admin.js';
import { ErrorAnswer } from '../schemas/service.js';

export const ModelQuery = z.object({
  model: z.string().optional().meta({ description: 'Name of the model; needed where several are served' }),
});

/** Throws invalid_request when the query does not name one model of several, and model_not_found for another name. */
export function chosenModel(context: ServerContext, { originalUrl }: Request): ModelContext {
  const at = originalUrl.indexOf('?');
  const asked = new URLSearchParams(at < 0 ? '' : originalUrl.slice(at)).getAll('model');
  if (asked.length > 1) {
    const message = `Expected one model in the query, found ${asked.length}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'model' });
  }
  return selectOneModel(context, asked[0]);
}

export const getExperts: Route = {
  method: 'get',
  path: '/admin/experts',
  scope: 'admin',
  summary: 'Where each expert is, by MoE layer',
  answers: { 200: { description: 'Residency of every expert', schema: ExpertsAnswer } },
  query: ModelQuery,
  async handle(context, req, res) {
    const model = chosenModel(context, req);
    const { layers } = await control(model, { kind: 'experts' });
    await model.writer.send(res, () => ({ layers }) satisfies typeof ExpertsAnswer._output);
  },
};

export const getPredictor: Route = {
  method: 'get',
  path: '/admin/predictor',
  scope: 'admin',
  summary: 'What names experts ahead at present',
  answers: { 200: { description: 'State of prediction', schema: PredictorAnswer } },
  query: ModelQuery,
  async handle(context, req, res) {
    const model = chosenModel(context, req);
    res.json(predictorAnswer(model, await control(model, { kind: 'predictor' })));
  },
};

export const putPredictor = bodyRoute({
  method: 'put',
  path: '/admin/predictor',
  scope: 'admin',
  summary: 'Switches prediction off or on; answers have the same bits',
  body: PredictorRequest,
  answers: { 200: { description: 'State of prediction', schema: PredictorAnswer } },
  query: ModelQuery,
  async handle(context, req, res, { enabled, seconds }) {
    const model = chosenModel(context, req);
    const reply = await control(model, { kind: 'predictor', set: { enabled, seconds } });
    const { name } = model;
    const about = { requestId: res.locals.requestId, ...(name !== undefined && { model: name }) };
    context.logger.info({ ...about, enabled, seconds }, 'prediction switched');
    res.json(predictorAnswer(model, reply));
  },
});

function predictorAnswer(
  { engine }: ModelContext,
  { enabled, needed, routeAhead }: Extract<ControlReply, { kind: 'predictor' }>,
): typeof PredictorAnswer._output {
  const name = engine.model?.predictor.name ?? null;
  const state = (on: boolean) => (!on || !enabled ? 'off' : needed ? 'active' : 'not_needed');
  return {
    enabled,
    function: name,
    state: state(name !== null),
    route_ahead: state(routeAhead > 0),
    passes: passesSoFar(engine.counters),
  };
}

function passesSoFar(counters: EngineCounters | undefined): (typeof PredictorAnswer._output)['passes'] {
  if (counters === undefined || counters.passSeconds === 0) return null;
  const stall = counters.stallSeconds;
  const compute = counters.passSeconds - stall;
  return { compute_seconds: compute, stall_seconds: stall, most_speedup: overlapBound(compute, stall) };
}

export const getBudget: Route = {
  method: 'get',
  path: '/admin/budget',
  scope: 'admin',
  summary: 'The budgets and their use',
  answers: { 200: { description: 'Budgets in bytes', schema: BudgetAnswer } },
  query: ModelQuery,
  async handle(context, req, res) {
    const model = chosenModel(context, req);
    const { usage, split } = await control(model, { kind: 'usage' });
    res.json({ ...budgetAnswer(usage, split), ...keptAnswer(model) });
  },
};

export const putBudget = bodyRoute({
  method: 'put',
  path: '/admin/budget',
  scope: 'admin',
  summary: 'Changes the device budget; answers when the new one holds',
  body: BudgetRequest,
  answers: {
    200: { description: 'The new budget holds', schema: BudgetAnswer },
    422: {
      description:
        'It is below the smallest workable budget, or above what other models leave of a shared one; nothing changed',
      schema: ErrorAnswer,
    },
  },
  query: ModelQuery,
  async handle(context, req, res, { device }) {
    const served = chosenModel(context, req);
    const caller = callerOf(res);
    const who = {
      // Browsers say so of the requests of a page to its own server.
      by: req.headers['sec-fetch-site'] === 'same-origin' ? ('page' as const) : ('api' as const),
      key: caller === ANYONE ? null : caller.owner,
      requestId: res.locals.requestId,
    };
    const change = async () => {
      const reply = await changeBudget(context, served, device, who);
      served.keeper?.setCap(reply.usage.budgetBytes);
      return reply;
    };
    const { usage, split } = await (served.keeper?.alone(change) ?? change());
    res.json({ ...budgetAnswer(usage, split), ...keptAnswer(served) });
  },
});

/** Empty where only operators change the budget. */
function keptAnswer({ keeper }: ModelContext): Pick<typeof BudgetAnswer._output, 'kept'> {
  if (keeper === undefined) return {};
  const { capBytes, by, ratio, unmet } = keeper.kept;
  return { kept: { cap_bytes: capBytes, by, ratio, unmet } };
}

export function budgetAnswer(
  { host, peers, ...device }: DeviceUsage,
  { driver, dense, workspace, kv, experts }: MemorySplit,
): typeof BudgetAnswer._output {
  return {
    device: {
      budget_bytes: device.budgetBytes,
      used_bytes: device.usedBytes,
      peak_bytes: device.peakBytes,
      smallest_bytes: device.smallestBytes,
      driver_bytes: driver,
      dense_bytes: dense,
      workspace_bytes: workspace,
      kv: { used_bytes: kv.used, cached_bytes: kv.cached, free_bytes: kv.free },
      experts: {
        slot_bytes: experts.slots,
        resident_bytes: experts.resident,
        all_bytes: experts.all,
        token_bytes: experts.token,
      },
    },
    disk_bytes_per_second: device.disk.bytesPerSecond,
    host: { budget_bytes: host.budgetBytes, used_bytes: host.usedBytes },
    ...(peers.length > 0 && { peers: peers.map(peerAnswer) }),
  };
}

const peerAnswer = (peer: PeerLink): NonNullable<typeof BudgetAnswer._output.peers>[number] => ({
  address: peer.address,
  connected: peer.connected,
  error: peer.error === '' ? null : peer.error,
  held: peer.held,
  experts: peer.experts,
  failures: peer.failures,
  sent_bytes: peer.sentBytes,
  received_bytes: peer.receivedBytes,
  round_trip_ms: 1000 * peer.roundTripSeconds,
  bytes_per_second: peer.bytesPerSecond,
});

export const deleteRequest: Route = {
  method: 'delete',
  path: '/admin/requests/:id',
  scope: 'admin',
  summary: 'Cancels a request whose client waits for its answer',
  params: RequestPath,
  answers: {
    200: { description: 'It is cancelled', schema: CancelAnswer },
    404: { description: 'No such request is in flight', schema: ErrorAnswer },
  },
  handle({ models, logger }, req, res) {
    const id = String(req.params.id);
    if (models.filter(({ inFlight }) => inFlight.cancel(id)).length === 0)
      throw new SidaError({ code: 'not_found', message: 'No such request is in flight' });
    logger.info({ requestId: res.locals.requestId, cancelled: id }, 'request cancelled by an operator');
    res.json({ id, status: 'cancelled' } satisfies typeof CancelAnswer._output);
  },
};

/** Records a profile while the request waits. */
export const postProfile = bodyRoute({
  method: 'post',
  path: '/admin/profile',
  scope: 'admin',
  summary: 'Records what every thread of the engine does and answers with a Chrome trace',
  body: ProfileRequest,
  answers: {
    200: {
      description: 'The Trace Event Format of chrome://tracing and Perfetto',
      contentType: 'application/json',
    },
    422: { description: 'A profile is being recorded already', schema: ErrorAnswer },
  },
  query: ModelQuery,
  async handle(server, req, res, { seconds }) {
    const context = chosenModel(server, req);
    const { deadline } = context.options;
    if (seconds * 1000 > deadline) {
      const message = `Expected "seconds" to be at most the deadline of ${deadline / 1000} s, found ${seconds}`;
      throw new SidaError({ code: 'invalid_request', message, param: 'seconds' });
    }
    await control(context, { kind: 'start-profile' });
    try {
      await delay(seconds * 1000, undefined, { signal: clientLeft(res) });
    } catch {
      await control(context, { kind: 'stop-profile', file: null });
      return;
    }
    const directory = await mkdtemp(join(tmpdir(), 'sida-profile-'));
    try {
      const file = join(directory, 'profile.json');
      await control(context, { kind: 'stop-profile', file });
      res.type('json');
      await pipeline(createReadStream(file), res).catch((error: NodeJS.ErrnoException) => {
        // A client that has gone away needs no answer.
        if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
      });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
});
