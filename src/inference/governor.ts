/**
 * Decides whether a source of prediction runs or rests, by measuring both while serving (`Probe`). If the interval of
 * the gain is above 0, the source goes on. If it is below 0, or still holds 0 after the last look, it rests. Then the
 * governor pauses until the next probe.
 *
 * A pause is long enough that what the probe lost in its worse arm is at most LOSS of the time. Pauses double while
 * probes agree. Unless the source has paid before, it also rests after a pair of windows until what the probe has lost
 * is that little, so that one which does not pay is hardly felt even before the first verdict. A pair counts only up to
 * a bound in this, as it may have met a stall that has other causes.
 */
import type { ArmFigures, Gain, GovernorFigures } from '../protocol/governor-figures.js';
import { PassExpectation } from './pass-expectation.js';
import { type Decision, Probe, SETTLING_PASSES } from './probe.js';
import type { PassTime, ProbeWindow } from './probe-window.js';

/** Most of the time that the probes of one source may lose. There are two sources. */
const LOSS = 0.01;
/** Windows double up to this many times the shortest while probes find nothing, and halve if they find it at once. */
const LONGEST = 16;
/** The shortest pause, as a multiple of the probe before it. */
const PAUSE = 8;
const DOUBLINGS = 5;
/** Doubled pauses end here, so that a load that changes is noticed. */
const LONGEST_PAUSE_MS = 600_000;

export class Governor {
  readonly #onChange: () => void;
  readonly #expectation = new PassExpectation();
  readonly #arms = { predict: noFigures(), rest: noFigures() };
  /** Undefined between two probes. */
  #probe: Probe | undefined;
  #decision: Decision | undefined;
  #scale = 1;
  /** Of the latest look of a probe. */
  #gain: Gain | null = null;
  #repeats = 0;
  #switches = 0;
  #pauseMs = 0;
  /** Passes since the latest probe ended. */
  #passes = 0;

  /** `onChange` is called when the state has changed. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
    this.#probe = this.#newProbe();
  }

  /** Whether passes run without the source at present. */
  get rests(): boolean {
    return this.#probe?.rests ?? this.#decision === 'resting';
  }

  /** Whether the source pays by the latest probe that has ended. */
  get pays(): boolean {
    return this.#decision === 'active';
  }

  /** Whether a window is open. Between two pairs of a probe none is while the source rests. */
  get measures(): boolean {
    return this.#probe?.measures ?? false;
  }

  get figures(): Omit<GovernorFigures, 'on'> {
    return {
      state: this.#probe === undefined ? this.#decision! : 'probing',
      gain: this.#gain,
      arms: { predict: { ...this.#arms.predict }, rest: { ...this.#arms.rest } },
      switches: this.#switches,
      pauseSeconds: this.#probe === undefined ? Math.max(0, this.#pauseMs) / 1000 : 0,
    };
  }

  /** Records a pass. `prepared` says that it ran no batch from before the last change of arm, and that none is left. */
  passed(pass: PassTime, prepared: boolean): void {
    const probe = this.#probe;
    if (probe !== undefined) {
      const decision = probe.passed(pass, prepared);
      if (probe.gain !== undefined) this.#gain = probe.gain;
      if (decision !== undefined) this.#settle(probe, decision);
      return;
    }
    this.#passes += 1;
    const settling = !prepared && this.#passes <= SETTLING_PASSES;
    if (this.rests && !settling) this.#expectation.learn(pass.kind, pass.tokens, pass.ms);
    this.#pauseMs -= pass.ms;
    if (this.#pauseMs <= 0) this.#begin();
  }

  /** Counts the time of a pass that another source is measured by. */
  elapsed(ms: number): void {
    this.#probe?.elapsed(ms);
  }

  /** Begins anew, because the memory for experts has changed. */
  restart(): void {
    this.#expectation.forget();
    this.#scale = 1;
    this.#repeats = 0;
    this.#decision = undefined;
    this.#gain = null;
    this.#begin();
  }

  #begin(): void {
    const paused = this.#probe === undefined;
    this.#probe = this.#newProbe();
    if (paused) this.#onChange();
  }

  #newProbe(): Probe {
    return new Probe({
      expectation: this.#expectation,
      scale: this.#scale,
      before: this.#decision,
      loss: LOSS,
      onWindow: (window) => this.#count(window),
    });
  }

  #count({ arm, passes, tokens, ms }: ProbeWindow): void {
    const sums = this.#arms[arm];
    sums.windows += 1;
    sums.passes += passes;
    sums.tokens += tokens;
    sums.seconds += ms / 1000;
  }

  #settle(probe: Probe, decision: Decision): void {
    if (probe.soon) this.#scale = Math.max(1, this.#scale / 2);
    else if (probe.late) this.#scale = Math.min(LONGEST, this.#scale * 2);
    if (this.#decision !== undefined && decision !== this.#decision) this.#switches += 1;
    this.#repeats = decision === this.#decision ? Math.min(this.#repeats + 1, DOUBLINGS) : 0;
    this.#decision = decision;
    const shortest = Math.max(PAUSE * probe.windowsMs, probe.mostLostMs(decision) / LOSS - probe.sinceMs);
    this.#pauseMs = Math.max(shortest, Math.min(shortest * 2 ** this.#repeats, LONGEST_PAUSE_MS));
    this.#passes = 0;
    this.#probe = undefined;
    this.#onChange();
  }
}

function noFigures(): ArmFigures {
  return { windows: 0, passes: 0, tokens: 0, seconds: 0 };
}
