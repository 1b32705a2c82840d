// How far a bench has come, on standard error: a bar with the time left on a terminal, plain lines elsewhere.
import { SingleBar } from 'cli-progress';

const LINE_SECONDS = 5;

export class BenchProgress {
  #total;
  #done = 0;
  #begun = performance.now();
  #toldMs = 0;
  #bar;
  #title;

  constructor(title, total) {
    this.#title = title;
    this.#total = total;
    if (!process.stderr.isTTY) return;
    const format = `${title} {bar} {value}/{total}  {eta_formatted} left  {note}`;
    this.#bar = new SingleBar({ stream: process.stderr, format, hideCursor: true });
    this.#bar.start(total, 0, { note: '' });
  }

  /** One more piece is done. */
  step(note = '') {
    this.#done += 1;
    this.#bar?.update(this.#done, { note });
    if (this.#done === this.#total) this.#bar?.stop();
    if (this.#bar === undefined) this.#print(note);
  }

  #print(note) {
    const now = performance.now();
    if (this.#done < this.#total && now - this.#toldMs < LINE_SECONDS * 1000) return;
    this.#toldMs = now;
    const left = ((now - this.#begun) / this.#done / 1000) * (this.#total - this.#done);
    console.error(
      `${this.#title}: ${this.#done}/${this.#total}, ${left.toFixed(0)} s left${note && `, ${note}`}`,
    );
  }
}
