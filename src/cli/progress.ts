/** Shows progress on standard error: a bar on a terminal, otherwise one line per tenth. */
import { formatBytes } from '../text/bytes.js';
import { setLiveLine, writeLines } from '../text/print.js';
import { Bar } from './bar.js';

interface ProgressStep {
  phase: 'convert' | 'hash' | 'verify' | 'load' | 'trace' | 'evaluate' | 'read' | 'download';
  done: number;
  total: number;
}

const TITLES = {
  convert: 'Packing experts',
  hash: 'Checking files',
  verify: 'Comparing experts',
  load: 'Loading',
  trace: 'Tracing',
  evaluate: 'Evaluating',
  read: 'Reading',
  download: 'Downloading',
} as const;

export class Progress {
  readonly #out: NodeJS.WriteStream;
  #phase: ProgressStep['phase'] | undefined;
  #bar: Bar | undefined;
  #tenth = -1;

  constructor(out: NodeJS.WriteStream = process.stderr) {
    this.#out = out;
  }

  show(step: ProgressStep): void {
    if (step.total <= 0) return;
    if (step.phase !== this.#phase) {
      this.stop();
      this.#phase = step.phase;
    }
    if (this.#out.isTTY) this.#draw(step);
    else this.#print(step);
  }

  /** Prints a line, after ending the bar. */
  say(line: string): void {
    this.stop();
    writeLines(this.#out, line);
  }

  /** Ends the bar. The next step starts a new one. */
  stop(): void {
    if (this.#bar !== undefined) {
      this.#bar.end();
      setLiveLine(undefined);
    }
    this.#bar = undefined;
    this.#phase = undefined;
    this.#tenth = -1;
  }

  #draw({ phase, done, total }: ProgressStep): void {
    if (this.#bar === undefined) {
      this.#bar = new Bar(this.#out, TITLES[phase], done);
      setLiveLine(this.#bar);
    }
    this.#bar.update(done, total, amount(phase, done, total));
  }

  #print({ phase, done, total }: ProgressStep): void {
    const tenth = Math.floor((10 * done) / total);
    if (tenth === this.#tenth) return;
    this.#tenth = tenth;
    const counted = amount(phase, done, total);
    writeLines(this.#out, `${TITLES[phase]}: ${tenth * 10} %${counted === '' ? '' : ` (${counted})`}`);
  }
}

/** The amount done, in the unit of the phase. Loading has no amount, because its steps mean nothing to the user. */
function amount(phase: ProgressStep['phase'], done: number, total: number): string {
  if (phase === 'load') return '';
  if (phase === 'trace') return `${done}/${total} lines`;
  if (phase === 'evaluate') return `${done}/${total} inputs`;
  return phase === 'convert' || phase === 'verify'
    ? `${done}/${total} experts`
    : `${formatBytes(done)} of ${formatBytes(total)}`;
}
