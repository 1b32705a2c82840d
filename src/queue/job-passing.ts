/** Jobs that change hands between workers: offers that this one makes, and those it is made. */
import type { Redis } from 'ioredis';
import { callScript } from './redis-client.js';
import { type Begun, type BegunFields, begunOf } from './redis-ledger.js';

export interface PassingOptions {
  client: Redis;
  /** Of the ledger's keys. */
  prefix: string;
  worker: string;
  onOffer: (id: string) => void;
  /** A job that was passed on has ended. */
  onDone: (id: string) => void;
}

/** A job that changed hands. */
export interface PassedJob {
  id: string;
  /** Of its run. */
  token: string;
  /** Of BullMQ's lock. */
  entryToken: string;
  begun: Begun;
  /** The worker that passed it on. */
  from: string;
}

type Answer = 'taken' | 'kept';

/** An offer that was not taken for so long has expired: no preference may cost a job more. */
export const OFFER_MS = 1_000;

export class JobPassing {
  readonly #options: PassingOptions;
  readonly #offers = new Map<string, (answer: Answer) => void>();

  constructor(options: PassingOptions) {
    this.#options = options;
  }

  /** Where this worker is told of offers and of what became of its own. */
  get channel(): string {
    const { prefix, worker } = this.#options;
    return inboxOf(prefix, worker);
  }

  onMessage(message: string): void {
    const colon = message.indexOf(':');
    const [what, id] = [message.slice(0, colon), message.slice(colon + 1)];
    if (what === 'offer') this.#options.onOffer(id);
    else if (what === 'done') this.#options.onDone(id);
    else if (what === 'taken' || what === 'kept') this.#offers.get(id)?.(what);
  }

  /** `taken`: run and lock are the other worker's. `kept`: they are still this one's. Rejects when Redis does. */
  async pass(job: Omit<PassedJob, 'begun' | 'from'>, to: string): Promise<Answer> {
    const { id, token, entryToken } = job;
    let timer: NodeJS.Timeout | undefined;
    const answered = new Promise<Answer | undefined>((resolve) => {
      this.#offers.set(id, resolve);
      timer = setTimeout(() => resolve(undefined), OFFER_MS);
    });
    try {
      const all = [id, token, entryToken, this.#options.worker, to, OFFER_MS];
      if ((await this.#call('placementPass', ...all)) === 'kept') return 'kept';
      return (await answered) ?? ((await this.#call('placementKeep', id)) as Answer);
    } finally {
      clearTimeout(timer);
      this.#offers.delete(id);
    }
  }

  /** Undefined: the offer has ended. */
  async take(id: string): Promise<PassedJob | undefined> {
    const answer = await this.#call('placementTake', id, this.#options.worker);
    const [as, token, entryToken, from, ...job] = answer as [string, string, string, string, ...BegunFields];
    if (as !== 'taken') return undefined;
    return { id, token, entryToken, from, begun: begunOf(job) };
  }

  /** Tells whoever passed it on, for its idea of this worker's load. */
  async done(id: string, to: string): Promise<void> {
    const { client, prefix } = this.#options;
    await client.publish(inboxOf(prefix, to), `done:${id}`);
  }

  async refuse(id: string): Promise<void> {
    await this.#call('placementKeep', id);
  }

  #call(script: 'placementPass' | 'placementTake' | 'placementKeep', ...values: (string | number)[]) {
    return callScript(this.#options.client, script, this.#options.prefix, ...values);
  }
}

function inboxOf(prefix: string, worker: string): string {
  return `${prefix}:ledger:inbox:${worker}`;
}
