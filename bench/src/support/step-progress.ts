/** How many steps of a script are done, as lines on standard error. */
const LINE_MS = 5000;

export class StepProgress {
  readonly #title: string;
  readonly #total: number;
  readonly #begun = performance.now();
  #done = 0;
  #printedMs = 0;

  constructor(title: string, total: number) {
    this.#title = title;
    this.#total = total;
  }

  /** One more step is done. */
  step(note = ''): void {
    this.#done += 1;
    const now = performance.now();
    if (this.#done < this.#total && now - this.#printedMs < LINE_MS) return;
    this.#printedMs = now;
    const left = ((now - this.#begun) / this.#done / 1000) * (this.#total - this.#done);
    const about = `${this.#done}/${this.#total}, ${left.toFixed(0)} s left${note && `, ${note}`}`;
    console.error(`${this.#title}: ${about}`);
  }
}
