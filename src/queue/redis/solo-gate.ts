/** Lets jobs into the engine together, and a job that is suspected of its crashes only alone. */
export class SoloGate {
  #inside = 0;
  #soloInside = false;
  readonly #waiting: { solo: boolean; enter: () => void }[] = [];

  /**
   * Resolves with the function that lets the job out again. Jobs enter in their order: none passes a waiting suspect.
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
