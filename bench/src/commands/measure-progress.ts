/** Progress of `sida bench` on standard error: a bar with the time left on a terminal, a line per run elsewhere. */
import { SingleBar } from 'cli-progress';
import { formatBytes } from '../../../dist/config/bytes.js';
import type { MeasureProgress } from '../runs/measure-all.js';
import type { Sample } from '../runs/result.js';

export class BenchProgress implements MeasureProgress {
  readonly #out: NodeJS.WriteStream;
  readonly #now: () => number;
  #bar: SingleBar | undefined;
  /** Runs measured now. Runs kept from before take no time. */
  #measured = 0;
  #measuredMs = 0;
  #lastMs: number;
  /** Time left of the whole bench, if it is limited. */
  secondsLeft: () => number = () => Number.POSITIVE_INFINITY;

  constructor(out: NodeJS.WriteStream = process.stderr, now: () => number = () => performance.now()) {
    this.#out = out;
    this.#now = now;
    this.#lastMs = now();
  }

  step(what: string): void {
    this.stop();
    this.#out.write(`${what}\n`);
    this.#lastMs = this.#now();
  }

  warn(message: string): void {
    this.stop();
    this.#out.write(`sida bench: ${message}\n`);
  }

  sample(done: number, total: number, name: string, sample: Sample, kept: boolean): void {
    const now = this.#now();
    if (!kept) {
      this.#measured += 1;
      this.#measuredMs += now - this.#lastMs;
    }
    this.#lastMs = now;
    const each = this.#measured === 0 ? 0 : this.#measuredMs / this.#measured;
    const left = timeText(Math.min((each * (total - done)) / 1000, this.secondsLeft()));
    if (!this.#out.isTTY) {
      const what = kept
        ? 'kept from before'
        : `${sample.p50Ms.toFixed(2)} ms, ${formatBytes(sample.bytesMoved)} moved`;
      this.#out.write(`${done}/${total} ${name}: ${what}; about ${left} left for these\n`);
      return;
    }
    if (this.#bar === undefined) {
      this.#bar = new SingleBar({
        stream: this.#out,
        format: 'Measuring {bar} {value}/{total}  {left} left  {name}',
        barCompleteChar: '█',
        barIncompleteChar: '░',
        hideCursor: true,
      });
      this.#bar.start(total, done, { left, name });
    }
    this.#bar.update(done, { left, name });
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }
}

/** `90 s`, `12 min`, `2 h 5 min`. */
export function timeText(seconds: number): string {
  if (seconds < 120) return `${Math.ceil(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
