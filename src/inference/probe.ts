/**
 * One measurement of a source: windows of passes with and without it in the order A B, B A, A B, and so on, so that a
 * drift of the load favours neither. Each window's time is divided by what its passes are expected to take
 * (`PassExpectation`), and pairs of windows give the gain with an interval (`gainOf`).
 */
import { ARMS, type Arm, type Gain } from '../protocol/governor-figures.js';
import { gainOf } from './paired-gain.js';
import type { PassExpectation } from './pass-expectation.js';
import { type PassTime, ProbeWindow } from './probe-window.js';

/** Pairs of windows after which a probe may end. Few looks, because each is another chance to be wrong. */
const LOOKS = [4, 8, 16];
/** A probe ends after this many pairs even if some of them could not be compared. */
const MOST_PAIRS = 24;
/** The shortest window: both at least. */
const WINDOW_PASSES = 4;
const WINDOW_MS = 50;
/** Passes at the start, and after a restart, that are not measured, because the slots are still being filled. */
const WARM_UP_PASSES = 16;
/** Passes after a change of arm within which batches that were prepared for the other arm are waited for. */
export const SETTLING_PASSES = 32;

export type Decision = 'active' | 'resting';

interface ProbeOptions {
  expectation: PassExpectation;
  /** Length of the windows, as a multiple of the shortest. */
  scale: number;
  /** What the probe before it has found. */
  before: Decision | undefined;
  /** Share of its time that the probe may lose, unless the source has paid before. */
  loss: number;
  onWindow: (window: ProbeWindow) => void;
}

export class Probe {
  readonly #options: ProbeOptions;
  #windows = 0;
  #window: ProbeWindow;
  /** The first window of a pair, once it is full. */
  #first: ProbeWindow | undefined;
  #differences: number[] = [];
  #gain: Gain | null | undefined;
  readonly #armMs = { predict: 0, rest: 0 };
  /** Time since the probe began, rests between its pairs included, and what its pairs have lost of it, as counted. */
  #sinceMs = 0;
  #lostMs = 0;
  /** Whether the source rests between two pairs until the probe may lose more. */
  #waits = false;
  /** The arm of the latest pass, and passes since it changed. */
  #arm: Arm | undefined;
  #armPasses = 0;

  constructor(options: ProbeOptions) {
    this.#options = options;
    this.#window = this.#open();
  }

  /** Whether passes run without the source at present. */
  get rests(): boolean {
    return this.#waits || this.#window.arm === 'rest';
  }

  /** Whether a window is open. */
  get measures(): boolean {
    return !this.#waits;
  }

  /** Of the latest look; null if too few pairs could be compared, and undefined before the first look. */
  get gain(): Gain | null | undefined {
    return this.#gain;
  }

  /** Whether it took the first look only, and whether it took all. */
  get soon(): boolean {
    return this.#differences.length <= LOOKS[0]!;
  }

  get late(): boolean {
    return this.#differences.length >= LOOKS.at(-1)!;
  }

  /** Time of the windows of both arms. */
  get windowsMs(): number {
    return this.#armMs.predict + this.#armMs.rest;
  }

  get sinceMs(): number {
    return this.#sinceMs;
  }

  /** The time that the windows of its worse arm lost, at most. */
  mostLostMs(decision: Decision): number {
    const { low, high } = this.#gain ?? { low: 0, high: 0 };
    if (decision === 'active') return this.#armMs.rest * Math.max(0, high);
    return this.#armMs.predict * Math.max(0, -low / (1 - low));
  }

  /** Returns what the probe has found, once it ends. `prepared` is as in `Governor.passed`. */
  passed(pass: PassTime, prepared: boolean): Decision | undefined {
    this.#armPasses += 1;
    this.#sinceMs += pass.ms;
    const settling = !prepared && this.#armPasses <= SETTLING_PASSES;
    const { expectation } = this.#options;
    if (this.#waits) {
      if (!settling) expectation.learn(pass.kind, pass.tokens, pass.ms);
      this.#endRest();
      return undefined;
    }
    const measured = this.#window.add(pass, settling);
    if (measured && this.#window.arm === 'rest') expectation.learn(pass.kind, pass.tokens, pass.ms);
    return this.#window.isFull ? this.#close() : undefined;
  }

  /** Counts the time of a pass that another source is measured by. Only a rest between two pairs gets shorter by it. */
  elapsed(ms: number): void {
    if (!this.#waits) return;
    // What follows may still feel the other source.
    this.#arm = undefined;
    this.#sinceMs += ms;
    this.#endRest();
  }

  #endRest(): void {
    if (this.#lostMs > this.#options.loss * this.#sinceMs) return;
    this.#waits = false;
    this.#window = this.#open();
  }

  #open(): ProbeWindow {
    const { scale, before } = this.#options;
    const arm = ARMS[((this.#windows + 1) >> 1) % 2]!;
    const same = this.#run(arm);
    const settlePasses = this.#windows === 0 && before === undefined ? WARM_UP_PASSES : scale + 1;
    return new ProbeWindow(arm, {
      passes: WINDOW_PASSES * scale,
      ms: WINDOW_MS * scale,
      settlePasses: same ? 0 : settlePasses,
      settleMs: same ? 0 : (WINDOW_MS * scale) / 4,
    });
  }

  /** Returns whether the passes before ran the same arm. */
  #run(arm: Arm): boolean {
    const same = arm === this.#arm;
    if (!same) this.#armPasses = 0;
    this.#arm = arm;
    return same;
  }

  #close(): Decision | undefined {
    const window = this.#window;
    this.#options.onWindow(window);
    this.#armMs[window.arm] += window.wholeMs;
    this.#windows += 1;
    if (this.#first === undefined) this.#first = window;
    else {
      this.#compare(this.#first, window);
      this.#first = undefined;
      const decision = this.#decide();
      if (decision !== undefined) return decision;
      const { before, loss } = this.#options;
      if (before !== 'active' && this.#lostMs > loss * this.#sinceMs) {
        this.#waits = true;
        this.#run('rest');
        return undefined;
      }
    }
    this.#window = this.#open();
    return undefined;
  }

  #compare(first: ProbeWindow, second: ProbeWindow): void {
    const { expectation, scale, before } = this.#options;
    const [predict, rest] = first.arm === 'predict' ? [first, second] : [second, first];
    const ratios = [rest.ratio(expectation), predict.ratio(expectation)] as const;
    if (ratios[0] === undefined || ratios[1] === undefined) return;
    const difference = Math.log(ratios[0] / ratios[1]);
    // Passes that warm up say nothing, as slots are being filled.
    const warmedUp = before !== undefined || this.#differences.length > 0;
    const ms = warmedUp ? predict.wholeMs : predict.ms;
    const resting = ms * Math.exp(difference);
    // A pair may have met a stall that has other causes.
    const most = Math.max(WINDOW_MS * scale, resting);
    this.#lostMs += Math.max(-most, Math.min(ms - resting, most));
    this.#differences.push(difference);
  }

  /** Returns undefined if the probe must go on. */
  #decide(): Decision | undefined {
    const last = this.late || this.#windows >= 2 * MOST_PAIRS;
    if (!last && !LOOKS.includes(this.#differences.length)) return undefined;
    this.#gain = gainOf(this.#differences);
    const { low, high } = this.#gain ?? { low: 0, high: 0 };
    if (low > 0) return 'active';
    return high < 0 || last ? 'resting' : undefined;
  }
}
