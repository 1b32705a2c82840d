/** How many steps of a script are done, on standard error: a bar with the time left on a terminal, lines elsewhere. */
import { SingleBar } from 'cli-progress';

const LINE_MS = 5000;

export class StepProgress {
  readonly #title: string;
  readonly #total: number;
  readonly #begun = performance.now();
  readonly #bar: SingleBar | undefined;
  #done = 0;
  #printedMs = 0;

  constructor(title: string, total: number) {
    this.#title = title;
    this.#total = total;
    if (!process.stderr.isTTY) return;
    const format = `${title} {bar} {value}/{total}  {eta_formatted} left  {note}`;
    this.#bar = new SingleBar({ stream: process.stderr, format, hideCursor: true });
    this.#bar.start(total, 0, { note: '' });
  }

  /** One more step is done. */
  step(note = ''): void {
    this.#done += 1;
    this.#bar?.update(this.#done, { note });
    if (this.#done === this.#total) this.#bar?.stop();
    if (this.#bar === undefined) this.#print(note);
  }

  #print(note: string): void {
    const now = performance.now();
    if (this.#done < this.#total && now - this.#printedMs < LINE_MS) return;
    this.#printedMs = now;
    const left = ((now - this.#begun) / this.#done / 1000) * (this.#total - this.#done);
    console.error(
      `${this.#title}: ${this.#done}/${this.#total}, ${left.toFixed(0)} s left${note && `, ${note}`}`,
    );
  }
}
