/** Lets jobs into the engine side by side, and a suspect of its crashes only by itself. */
export class SoloGate {
  #inside = 0;
  #soloInside = false;
  readonly #waiting: { solo: boolean; enter: () => void }[] = [];

  /** Resolves with what lets the job out again. First come, first in: a suspect is not passed by those behind it. */
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
