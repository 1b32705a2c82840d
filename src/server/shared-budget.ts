/** Keeps the budgets of a server's models within the total that they share. */
import type { ControlReply, ModelRequest } from '../protocol/engine-messages.js';

type SetBudget = Extract<ModelRequest, { kind: 'set-budget' }>;
type Ask = (request: SetBudget) => Promise<ControlReply>;

export class SharedBudget {
  readonly #total: number;
  /** Bytes by the name of the model. An engine that is replaced starts with the last budget that it had. */
  readonly #budgets: Map<string, number>;
  /** The last change, which may still run. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(total: number, budgets: ReadonlyMap<string, number>) {
    this.#total = total;
    this.#budgets = new Map(budgets);
  }

  /**
   * Sends the change to the model's engine with what the others leave, which the engine compares: only the engine knows
   * how many bytes a share is. One change begins after the other.
   */
  change(model: string, request: SetBudget, ask: Ask): Promise<ControlReply> {
    const changed = this.#last.then(async () => {
      const reply = await ask({ ...request, shared: { total: this.#total, others: this.#others(model) } });
      if (reply.kind === 'set-budget') this.#budgets.set(model, reply.usage.budgetBytes);
      return reply;
    });
    this.#last = changed.catch(() => undefined);
    return changed;
  }

  /** Gives the model its bytes, if the others leave them. Returns whether they do. */
  load(model: string, bytes: number): boolean {
    if (bytes > this.#total - this.#others(model)) return false;
    this.#budgets.set(model, bytes);
    return true;
  }

  /** Takes back the bytes of a model whose engine has ended, and returns them. */
  unload(model: string): number {
    const bytes = this.#budgets.get(model) ?? 0;
    this.#budgets.delete(model);
    return bytes;
  }

  #others(model: string): number {
    return [...this.#budgets].reduce((sum, [name, bytes]) => sum + (name === model ? 0 : bytes), 0);
  }
}
