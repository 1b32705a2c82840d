/** Admits jobs to the engine together, but a job that may have caused crashes only alone. */
export class SoloGate {
  #inside = 0;
  #soloInside = false;
  readonly #waiting: { solo: boolean; enter: () => void }[] = [];

  /**
   * Waits until the job may enter, and resolves with the function that lets it leave. `solo` admits the job alone.
   * Jobs enter in the order of their calls; none overtakes a waiting solo job.
   */
  async enter(solo: boolean): Promise<() => void> {
    await new Promise<void>((enter) => {
      this.#waiting.push({ solo, enter });
      this.#letIn();
    });
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#inside -= 1;
      this.#soloInside = false;
      this.#letIn();
    };
  }

  #letIn(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#soloInside || (next.solo && this.#inside > 0)) return;
      this.#waiting.shift();
      this.#inside += 1;
      this.#soloInside = next.solo;
      next.enter();
    }
  }
}
