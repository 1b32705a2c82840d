/**
 * The needs of passes for who asks: by them a measurement knows what no other policy could have saved. Nothing is kept
 * before the first question.
 */
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
