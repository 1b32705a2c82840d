/** Takes the engine's questions about needs to the hash-building thread, and its answers back. */
import { SidaError } from '../errors.js';
import type { ToHashBuilder } from '../predictor/hash-builder-thread.js';
import type { PendingItem } from './batcher.js';
import type { FromEngine, RunRequest } from './messages.js';
import { type ModelLimits, prepareJob } from './prepare-job.js';
import { routingKOf } from './routing.js';

export interface NeedDeskOptions {
  limits: ModelLimits;
  toHashBuilder: (message: ToHashBuilder) => void;
  send: (message: FromEngine) => void;
}

export class NeedDesk {
  readonly #options: NeedDeskOptions;

  constructor(options: NeedDeskOptions) {
    this.#options = options;
  }

  /** `id`: of the control request. */
  ask(id: number, request: RunRequest): void {
    try {
      const items = this.#items(request);
      if (items.length === 0) this.answer(id, null);
      else this.#options.toHashBuilder({ type: 'ask', question: id, items });
    } catch (error) {
      this.#options.send({ type: 'control-error', id, error: SidaError.from(error).toBody() });
    }
  }

  answer(id: number, need: Float64Array | null): void {
    this.#options.send({ type: 'control-reply', id, reply: { kind: 'need', need } });
  }

  /** The first inputs, as many as one batch holds: a question must not take longer than a batch. */
  #items(request: RunRequest): PendingItem[] {
    const { limits } = this.#options;
    const routingK = routingKOf(request.routing, limits.routing);
    let room = limits.maxBatchTokens;
    const inputs = prepareJob(request, limits);
    const past = inputs.findIndex(({ tokens }) => {
      room -= tokens.length;
      return room < 0;
    });
    return inputs.slice(0, past < 0 ? inputs.length : past).map(({ tokens, work }, item) => {
      return { item, job: 0, jobItems: inputs.length, routingK, work, tokens };
    });
  }
}
