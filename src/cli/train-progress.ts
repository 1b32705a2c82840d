/** Shows the progress of training on standard error: a bar on a terminal, otherwise one line per evaluation. */
import { SingleBar as Bar, type SingleBar } from 'cli-progress';
import type { Measures } from '../predictor/training/measures.js';
import type { Evaluation } from '../predictor/training/network-state.js';
import type { TrainingProgress } from '../predictor/training/network-training.js';
import { writeLines } from '../text/print.js';

/** Formats 72 seconds as `1m12s`. */
export function formatSeconds(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (h > 0) return `${h}h${String(m).padStart(2, '0')}m`;
  return m > 0 ? `${m}m${String(s).padStart(2, '0')}s` : `${s}s`;
}

function hits({ hits }: Measures): string {
  return `${(100 * hits[0]!).toFixed(1)}/${(100 * hits.at(-1)!).toFixed(1)} %`;
}

const SCALE = 1000;

export class TrainProgress {
  readonly #out: NodeJS.WriteStream;
  #bar: SingleBar | undefined;
  #network: string | undefined;
  #from = { time: 0, done: 0 };
  #left = '';

  constructor(out: NodeJS.WriteStream = process.stderr) {
    this.#out = out;
  }

  show({ network, step, done, train, heldOut }: TrainingProgress): void {
    if (network !== this.#network) this.#begin(network, done);
    const { time, done: before } = this.#from;
    const rate = (done - before) / (performance.now() - time);
    this.#left = rate > 0 ? formatSeconds((1 - done) / rate / 1000) : '';
    if (!this.#out.isTTY) return;
    const shown = train ?? heldOut;
    this.#bar?.update(Math.round(done * SCALE), {
      step,
      loss: shown ? shown.loss.toFixed(3) : '…',
      hits: shown ? hits(shown) : '…',
      heldOut: heldOut ? hits(heldOut) : '…',
      left: this.#left === '' ? '…' : this.#left,
    });
  }

  /** Prints an evaluation as one line, unless standard error is a terminal. */
  measured({ network, step, epoch, train, heldOut, best, plateau }: Evaluation): void {
    if (this.#out.isTTY) return;
    const parts = [
      `${network} step ${step} (epoch ${epoch.toFixed(2)})`,
      train && `loss ${train.loss.toFixed(4)}, hits ${hits(train)}`,
      `held out ${heldOut.loss.toFixed(4)}, ${hits(heldOut)}${best ? ', the best so far' : ''}`,
      plateau && 'the held-out loss has almost stopped improving',
      this.#left && `${this.#left} left at most`,
    ];
    writeLines(this.#out, parts.filter(Boolean).join('; '));
  }

  say(text: string): void {
    this.stop();
    writeLines(this.#out, text);
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    this.#network = undefined;
  }

  #begin(network: string, done: number): void {
    this.stop();
    this.#network = network;
    this.#from = { time: performance.now(), done };
    if (!this.#out.isTTY) return;
    this.#bar = new Bar({
      stream: this.#out,
      format: `${network.padEnd(7)} {bar} {percentage} %  step {step}  loss {loss}  hits {hits}  held out {heldOut}  {left} left`,
      barsize: 20,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      hideCursor: true,
    });
    this.#bar.start(SCALE, Math.round(done * SCALE), {
      step: 0,
      loss: '…',
      hits: '…',
      heldOut: '…',
      left: '…',
    });
  }
}
