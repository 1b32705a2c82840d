/** Input and output of a measurement's process. */
import type { SystemName } from '../scenarios/systems.js';

export interface MeasurementWork {
  system: SystemName;
  /** Options of `sida serve`, as a user would write them. */
  flags: Record<string, string>;
  pack: string;
  fingerprint: string;
  /** Identity of the model's weights. */
  weights: string;
  texts: string[];
  labels: readonly string[];
  /** Texts that run before the clock starts. */
  warmUp: readonly string[];
  /** Sentences of one batch. */
  batch: number;
  /** Flat ids by layer of each measured pass, where they are known: for the bound of the bytes. */
  needs?: number[][];
}

/** One run of a measurement. Times are milliseconds where the name does not say seconds. */
export interface Sample {
  sentences: number;
  tokens: number;
  /** First batch begun to last answer. */
  wallMs: number;
  /** Of one batch, from its start on the device to its answer. */
  p50Ms: number;
  p95Ms: number;
  slots: number;
  experts: number;
  slotBytes: number;
  budgetBytes: number;
  peakBytes: number;
  /** Bytes in use on the whole GPU before the measurement, and their maximum during it, according to its driver. */
  gpuBeforeBytes?: number;
  gpuPeakBytes?: number;
  needed: number;
  resident: number;
  prefetched: number;
  late: number;
  onDemand: number;
  bytesMoved: number;
  stallSeconds: number;
  passSeconds: number;
  passes: number;
  /** Busy seconds of the hash-building thread. */
  tableSeconds: number;
  tableWaitSeconds: number;
  /**
   * The least bytes that any policy could have moved: Belady's rule over the needs of the measured passes, from what
   * this run's device held when they began. Absent for runs on the threads of `sida serve`, which do not tell needs.
   */
  leastBytes?: number;
  /** (MoE layer, token) pairs that tables predicted, and hits among them. */
  routingsPredicted: number;
  routingHitsTop1: number;
  /** sha256 of every label score's bits, in the order of the sentences. */
  digest: string;
  /** The label of each sentence, one letter or digit each. */
  answers: string;
  warnings: string[];
}
