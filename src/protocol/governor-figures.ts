/** What the governors of prediction report. */

/** What names experts ahead, each with a governor of its own: hash tables, and the routers of later layers. */
export const SOURCES = ['tables', 'look_ahead'] as const;
export type Source = (typeof SOURCES)[number];

/** The two ways to run passes that a governor compares: with the source, and without. */
export const ARMS = ['predict', 'rest'] as const;
export type Arm = (typeof ARMS)[number];

/**
 * active: passes use the source. resting: they do not, because it did not pay. probing: both are tried in turn.
 * not_needed: every expert has a slot. off: there is no predictor, or no layer looks ahead.
 */
export const GOVERNOR_STATES = ['active', 'probing', 'resting', 'not_needed', 'off'] as const;
export type GovernorState = (typeof GOVERNOR_STATES)[number];

/** The share of time that a source saves, with a 95 % interval. It is negative if it costs time. */
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
  /** Whether the governor decides. If not, passes use the source whenever experts may have to be loaded. */
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

export type Governors = Record<Source, GovernorFigures>;
