/**
 * Decides whether a source of prediction runs or rests, by measuring both while serving. A probe compares windows of
 * passes with and without it in the order A B, B A, A B, and so on, so that a drift of the load favours neither. Each
 * window's time is divided by what its passes are expected to take (`PassExpectation`), and pairs of windows give the
 * gain with an interval (`gainOf`). If the interval is above 0, the source goes on. If it is below 0, or still holds 0
 * after the last look, it rests. Then the governor pauses until the next probe.
 *
 * A pause is long enough that what the probe lost in its worse arm is at most LOSS of the time. Pauses double while
 * probes agree. Unless the source has paid before, it also rests after a pair of windows until what the probe has lost
 * is that little, so that one which does not pay is hardly felt even before the first verdict. A pair counts only up to
 * a bound in this, as it may have met a stall that has other causes.
 */
import {
  ARMS,
  type Arm,
  type ArmFigures,
  type Gain,
  type GovernorFigures,
} from '../protocol/governor-figures.js';
import { gainOf } from './paired-gain.js';
import { PassExpectation } from './pass-expectation.js';
import { type PassTime, ProbeWindow } from './probe-window.js';

/** Most of the time that the probes of one source may lose. There are two sources. */
const LOSS = 0.01;
/** Pairs of windows after which a probe may end. Few looks, because each is another chance to be wrong. */
const LOOKS = [4, 8, 16];
/** A probe ends after this many pairs even if some of them could not be compared. */
const MOST_PAIRS = 24;
/** The shortest window: both at least. */
const WINDOW_PASSES = 4;
const WINDOW_MS = 50;
/** Passes at the start, and after a restart, that are not measured, because the slots are still being filled. */
const WARM_UP_PASSES = 16;
/** Windows double up to this many times the shortest while probes find nothing, and halve if they find it at once. */
const LONGEST = 16;
/** Passes after a change of arm within which batches that were prepared for the other arm are waited for. */
const SETTLING_PASSES = 32;
/** The shortest pause, as a multiple of the probe before it. */
const PAUSE = 8;
const DOUBLINGS = 5;
/** Doubled pauses end here, so that a load that changes is noticed. */
const LONGEST_PAUSE_MS = 600_000;

type Phase = 'probing' | 'active' | 'resting';

export class Governor {
  readonly #onChange: () => void;
  readonly #expectation = new PassExpectation();
  readonly #arms = { predict: noFigures(), rest: noFigures() };
  #phase: Phase = 'probing';
  #window: ProbeWindow;
  /** Windows of the probe before this one. */
  #windows = 0;
  #scale = 1;
  /** The first window of a pair, once it is full. */
  #first: ProbeWindow | undefined;
  #differences: number[] = [];
  #probeMs = { predict: 0, rest: 0 };
  /** Time since the probe began, waits between its pairs included, and what its pairs have lost of it, as counted. */
  #sinceMs = 0;
  #lostMs = 0;
  /** Whether the source rests between two pairs until the probe may lose more. */
  #waits = false;
  /** The arm of the latest pass of this probe, and passes since it changed. */
  #arm: Arm | undefined;
  #armPasses = 0;
  #gain: Gain | null = null;
  #decision: Phase | undefined;
  #repeats = 0;
  #switches = 0;
  #pauseMs = 0;

  /** `onChange` is called when the phase has changed. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
    this.#window = this.#open(WARM_UP_PASSES);
  }

  /** Whether passes run without the source at present. */
  get rests(): boolean {
    if (this.#phase !== 'probing') return this.#phase === 'resting';
    return this.#waits || this.#window.arm === 'rest';
  }

  /** Whether the source pays by the latest probe that has ended. */
  get pays(): boolean {
    return this.#decision === 'active';
  }

  get figures(): Omit<GovernorFigures, 'on'> {
    return {
      state: this.#phase,
      gain: this.#gain,
      arms: { predict: { ...this.#arms.predict }, rest: { ...this.#arms.rest } },
      switches: this.#switches,
      pauseSeconds: this.#phase === 'probing' ? 0 : Math.max(0, this.#pauseMs) / 1000,
    };
  }

  /** Records a pass. `prepared` says that no batch from before the last change of arm is left. */
  passed(pass: PassTime, prepared: boolean): void {
    this.#armPasses += 1;
    const settling = !prepared && this.#armPasses <= SETTLING_PASSES;
    if (this.#phase === 'probing') {
      this.#sinceMs += pass.ms;
      if (this.#waits) this.#wait(pass, settling);
      else this.#measure(pass, settling);
      return;
    }
    if (this.rests && !settling) this.#learn(pass);
    this.#pauseMs -= pass.ms;
    if (this.#pauseMs <= 0) this.#probe();
  }

  /** Begins anew, because the memory for experts has changed. */
  restart(): void {
    this.#expectation.forget();
    this.#scale = 1;
    this.#repeats = 0;
    this.#decision = undefined;
    this.#gain = null;
    this.#probe();
  }

  #measure(pass: PassTime, settling: boolean): void {
    if (this.#window.add(pass, settling) && this.#window.arm === 'rest') this.#learn(pass);
    if (this.#window.isFull) this.#close();
  }

  #wait(pass: PassTime, settling: boolean): void {
    if (!settling) this.#learn(pass);
    if (this.#lostMs > LOSS * this.#sinceMs) return;
    this.#waits = false;
    this.#window = this.#open(this.#scale + 1);
  }

  #learn({ kind, tokens, ms }: PassTime): void {
    this.#expectation.learn(kind, tokens, ms);
  }

  #probe(): void {
    this.#windows = 0;
    this.#first = undefined;
    this.#differences = [];
    this.#probeMs = { predict: 0, rest: 0 };
    this.#sinceMs = 0;
    this.#lostMs = 0;
    this.#waits = false;
    this.#arm = undefined;
    this.#window = this.#open(this.#decision === undefined ? WARM_UP_PASSES : this.#scale + 1);
    this.#enter('probing');
  }

  /** The windows of a probe: predict, rest, rest, predict, predict, rest, and so on. */
  #open(settlePasses: number): ProbeWindow {
    const arm = ARMS[((this.#windows + 1) >> 1) % 2]!;
    const same = this.#run(arm);
    return new ProbeWindow(arm, {
      passes: WINDOW_PASSES * this.#scale,
      ms: WINDOW_MS * this.#scale,
      settlePasses: same ? 0 : settlePasses,
      settleMs: same ? 0 : (WINDOW_MS * this.#scale) / 4,
    });
  }

  /** Returns whether the passes before ran the same arm. */
  #run(arm: Arm): boolean {
    const same = arm === this.#arm;
    if (!same) this.#armPasses = 0;
    this.#arm = arm;
    return same;
  }

  #close(): void {
    const window = this.#window;
    const { arm, passes, tokens, ms, wholeMs } = window;
    const sums = this.#arms[arm];
    sums.windows += 1;
    sums.passes += passes;
    sums.tokens += tokens;
    sums.seconds += ms / 1000;
    this.#probeMs[arm] += wholeMs;
    this.#windows += 1;
    if (this.#first === undefined) this.#first = window;
    else {
      this.#compare(this.#first, window);
      this.#first = undefined;
      const decision = this.#decide();
      if (decision !== undefined) {
        this.#settle(decision);
        return;
      }
      if (!this.pays && this.#lostMs > LOSS * this.#sinceMs) {
        this.#waits = true;
        this.#run('rest');
        return;
      }
    }
    this.#window = this.#open(this.#scale + 1);
  }

  #compare(first: ProbeWindow, second: ProbeWindow): void {
    const [predict, rest] = first.arm === 'predict' ? [first, second] : [second, first];
    const ratios = [rest.ratio(this.#expectation), predict.ratio(this.#expectation)] as const;
    if (ratios[0] === undefined || ratios[1] === undefined) return;
    const difference = Math.log(ratios[0] / ratios[1]);
    // Passes that warm up say nothing, as slots are being filled.
    const warmedUp = this.#decision !== undefined || this.#differences.length > 0;
    const ms = warmedUp ? predict.wholeMs : predict.ms;
    const resting = ms * Math.exp(difference);
    const most = Math.max(WINDOW_MS * this.#scale, resting);
    this.#lostMs += Math.max(-most, Math.min(ms - resting, most));
    this.#differences.push(difference);
  }

  /** Returns undefined if the probe must go on. */
  #decide(): 'active' | 'resting' | undefined {
    const { length } = this.#differences;
    const last = length === LOOKS.at(-1) || this.#windows >= 2 * MOST_PAIRS;
    if (!last && !LOOKS.includes(length)) return undefined;
    this.#gain = gainOf(this.#differences);
    const { low, high } = this.#gain ?? { low: 0, high: 0 };
    if (low > 0) return 'active';
    return high < 0 || last ? 'resting' : undefined;
  }

  #settle(decision: 'active' | 'resting'): void {
    const { length } = this.#differences;
    if (length <= LOOKS[0]!) this.#scale = Math.max(1, this.#scale / 2);
    else if (length >= LOOKS.at(-1)!) this.#scale = Math.min(LONGEST, this.#scale * 2);
    if (this.#decision !== undefined && decision !== this.#decision) this.#switches += 1;
    this.#repeats = decision === this.#decision ? Math.min(this.#repeats + 1, DOUBLINGS) : 0;
    this.#decision = decision;
    const shortest = Math.max(
      PAUSE * (this.#probeMs.predict + this.#probeMs.rest),
      this.#mostLostMs(decision) / LOSS - this.#sinceMs,
    );
    this.#pauseMs = Math.max(shortest, Math.min(shortest * 2 ** this.#repeats, LONGEST_PAUSE_MS));
    this.#enter(decision);
  }

  /** The time that the probe lost in its worse arm, at most. */
  #mostLostMs(decision: 'active' | 'resting'): number {
    const { low, high } = this.#gain ?? { low: 0, high: 0 };
    if (decision === 'active') return this.#probeMs.rest * Math.max(0, high);
    return this.#probeMs.predict * Math.max(0, -low / (1 - low));
  }

  #enter(phase: Phase): void {
    if (phase === this.#phase) return;
    this.#phase = phase;
    if (phase !== 'probing') this.#armPasses = 0;
    this.#onChange();
  }
}

function noFigures(): ArmFigures {
  return { windows: 0, passes: 0, tokens: 0, seconds: 0 };
}
