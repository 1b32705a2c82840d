/** A progress bar on the last line of a terminal. */
import type { LiveLine } from '../text/print.js';

const WIDTH = 30;
/** Time between two drawings. */
const PAUSE_MS = 100;
/** A rate that was measured for a shorter time says little. */
const RATE_MS = 500;

export class Bar implements LiveLine {
  readonly #out: NodeJS.WriteStream;
  readonly #title: string;
  readonly #begun = { at: performance.now(), done: 0 };
  #line = '';
  #drawn = Number.NEGATIVE_INFINITY;

  constructor(out: NodeJS.WriteStream, title: string, done: number) {
    this.#out = out;
    this.#title = title;
    this.#begun.done = done;
  }

  update(done: number, total: number, amount: string): void {
    const share = Math.min(1, done / total);
    const full = Math.round(WIDTH * share);
    const parts = [
      `${this.#title.padEnd(17)} ${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${Math.floor(100 * share)} %`,
      amount,
      this.#left(done, total),
    ];
    this.#line = parts.filter(Boolean).join('  ');
    if (done >= total || performance.now() - this.#drawn >= PAUSE_MS) this.draw();
  }

  draw(): void {
    this.#drawn = performance.now();
    // A line that is cut at the edge, and not wrapped, can be cleared as one line.
    this.#out.write(`\r\u001b[?7l${this.#line}\u001b[K\u001b[?7h`);
  }

  clear(): void {
    this.#out.write('\r\u001b[K');
  }

  /** Leaves the bar as it is and begins a new line. */
  end(): void {
    this.draw();
    this.#out.write('\n');
  }

  #left(done: number, total: number): string {
    const elapsed = performance.now() - this.#begun.at;
    const moved = done - this.#begun.done;
    if (moved <= 0 || done >= total || elapsed < RATE_MS) return '';
    return `${time(((total - done) / moved) * (elapsed / 1000))} left`;
  }
}

function time(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
