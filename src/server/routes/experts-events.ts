/** Streams which experts are on the device, and what that takes, as both change. The page draws it. */
import { setTimeout as delay } from 'node:timers/promises';
import type { z } from 'zod';
import type { EngineCounters } from '../../protocol/engine-messages.js';
import { clientLeft } from '../client-left.js';
import { type BudgetChange, control, type ModelContext } from '../context.js';
import { EventStream, SERVER_SENT } from '../event-stream.js';
import { LIMITS } from '../limits.js';
import { payerOf } from '../middleware/auth.js';
import type { RequestInFlight } from '../requests-in-flight.js';
import type { Route } from '../route.js';
import { ExpertsEvent } from '../schemas/admin.js';
import { ErrorAnswer } from '../schemas/service.js';
import { budgetAnswer, chosenModel, ModelQuery } from './admin.js';

/** Time between looks at the engine, for a model of few experts and for others. Small models answer in a moment. */
const LOOK_MS = { few: 50, many: 200 };
const FEW_EXPERTS = 1024;
const MOST_REQUESTS = 100;

export const getExpertsEvents: Route = {
  method: 'get',
  path: '/admin/experts/events',
  scope: 'admin',
  summary: 'Changes of the residency of experts and of the memory in use, as server-sent events',
  answers: {
    200: { description: 'Events without a name', schema: ExpertsEvent, contentType: 'text/event-stream' },
    429: { description: 'The key has too many streams open', schema: ErrorAnswer },
  },
  query: ModelQuery,
  async handle(context, req, res) {
    const model = chosenModel(context, req);
    const free = context.streams.take(payerOf(res));
    const sse = new EventStream(res, SERVER_SENT, () => context.metrics.countSlowReader());
    const beat = setInterval(() => sse.beat(), LIMITS.streamBeatMs);
    const left = clientLeft(res);
    try {
      const changes = new Changes(model);
      sse.send(await changes.next());
      // A HEAD request needs only the headers.
      while (!left.aborted && !context.draining && req.method !== 'HEAD') {
        await delay(changes.lookMs, undefined, { signal: left }).catch(() => undefined);
        if (!changes.any || left.aborted) continue;
        sse.send(await changes.next());
        await sse.drained();
      }
      sse.end();
    } catch (error) {
      // The engine has crashed, and the reader asks again.
      if (!sse.opened) throw error;
      sse.end();
    } finally {
      clearInterval(beat);
      free();
    }
  },
};

/** What has changed in an engine since it was last looked at. */
class Changes {
  readonly #model: ModelContext;
  /** As last sent. */
  #experts = new Map<string, string>();
  #seen = '';
  #change: BudgetChange | undefined;

  constructor(model: ModelContext) {
    this.#model = model;
  }

  /** Whether passes have run, the budget has changed, or a peer has come or gone. */
  get any(): boolean {
    return this.#stamp() !== this.#seen;
  }

  get lookMs(): number {
    return this.#experts.size <= FEW_EXPERTS ? LOOK_MS.few : LOOK_MS.many;
  }

  #stamp(): string {
    const { engine, inFlight, budgetChanges } = this.#model;
    const own = [inFlight.changes, budgetChanges.at(-1)?.time];
    const { counters, state } = engine;
    if (counters === undefined) return [state.phase, ...own].join();
    const { passes, activeSequences, waitingInputs, kvPagesCached, usage } = counters;
    const peers = usage.peers.map(({ connected, error }) => connected || error);
    const used = [kvPagesCached, usage.budgetBytes, usage.slots, ...peers];
    return [passes, activeSequences, waitingInputs, ...used, ...own].join();
  }

  async next(): Promise<z.infer<typeof ExpertsEvent>> {
    this.#seen = this.#stamp();
    const first = this.#experts.size === 0;
    const { layers } = await control(this.#model, { kind: 'experts' });
    const { usage, split } = await control(this.#model, { kind: 'usage' });
    const { device: memory, peers } = budgetAnswer(usage, split);
    const experts: z.infer<typeof ExpertsEvent>['experts'] = [];
    for (const [layer, own] of layers.entries())
      for (const { index, state, uses } of own.experts) {
        const [key, value] = [`${layer}/${index}`, `${state}/${uses}`];
        if (this.#experts.get(key) === value) continue;
        this.#experts.set(key, value);
        experts.push([layer, index, state, uses]);
      }
    const { inFlight, budgetChanges, engine } = this.#model;
    const newest = budgetChanges.at(-1);
    const changed = newest !== this.#change;
    this.#change = newest;
    return {
      ...(first && { layers: layers.map(({ layer }) => layer) }),
      experts,
      memory,
      ...(peers !== undefined && { peers }),
      requests: inFlight.list().slice(0, MOST_REQUESTS).map(requestAnswer),
      ...(changed && { budget_changes: budgetChanges.map(changeAnswer) }),
      totals: totalsOf(engine.counters),
    };
  }
}

const requestAnswer = ({ id, kind, key, startedMs, mostTokens, tokens }: RequestInFlight) => {
  return { id, kind, key, started_ms: startedMs, most_tokens: mostTokens(), tokens };
};

const changeAnswer = ({ time, from, to, by, key }: BudgetChange) => {
  return { time_ms: time, from_bytes: from, to_bytes: to, by, key };
};

function totalsOf(counters: EngineCounters | undefined): z.infer<typeof ExpertsEvent>['totals'] {
  return {
    passes: counters?.passes ?? 0,
    generated_tokens: counters?.generatedTokens ?? 0,
    moved_bytes: counters?.bytesMoved ?? 0,
    resident: counters?.expertsResident ?? 0,
    prefetched: counters?.expertsPrefetched ?? 0,
    late: counters?.expertsLate ?? 0,
    on_demand: counters?.expertsOnDemand ?? 0,
    peer: counters?.expertsPeer ?? 0,
    cpu: counters?.expertsCpu ?? 0,
    active_sequences: counters?.activeSequences ?? 0,
    waiting_inputs: counters?.waitingInputs ?? 0,
  };
}
