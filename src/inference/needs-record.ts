/** Records which experts passes needed, for measurements of the lower bound. Keeps nothing before the first request. */
export class NeedsRecord {
  #visits: (readonly number[])[] | undefined;

  /** The flat ids of the experts that a layer needed. */
  add(ids: readonly number[]): void {
    this.#visits?.push(ids);
  }

  /** The visits since the last call, in order. The first call begins the record. */
  take(): (readonly number[])[] {
    const visits = this.#visits ?? [];
    this.#visits = [];
    return visits;
  }
}
