/** What the governor of prediction reports. */

/** The two ways to run passes that the governor compares: with hash tables, and without. */
export const ARMS = ['predict', 'rest'] as const;
export type Arm = (typeof ARMS)[number];

/**
 * active: batches get tables. resting: they get none, because tables did not pay. probing: both are tried in turn.
 * not_needed: every expert has a slot. off: there is no predictor.
 */
export const GOVERNOR_STATES = ['active', 'probing', 'resting', 'not_needed', 'off'] as const;
export type GovernorState = (typeof GOVERNOR_STATES)[number];

/** The share of time that tables save, with a 95 % interval. It is negative if they cost time. */
export interface Gain {
  mean: number;
  low: number;
  high: number;
  /** Pairs of windows that were compared. */
  pairs: number;
}

/** Sums over the measured windows of one arm. */
export interface ArmFigures {
  windows: number;
  passes: number;
  tokens: number;
  /** Time of the inference thread, waits included. */
  seconds: number;
}

export interface GovernorFigures {
  /** Whether the governor decides. If not, batches get tables whenever experts may have to be loaded. */
  on: boolean;
  state: GovernorState;
  /** Of the latest probe; null before the first one has compared enough pairs. */
  gain: Gain | null;
  arms: Record<Arm, ArmFigures>;
  /** Times that a probe ended with another decision than the probe before it. */
  switches: number;
  /** Working time until the next probe. Time without work does not count. */
  pauseSeconds: number;
}
