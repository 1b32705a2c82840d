/** What a cell's process is told, and what it answers. */
import type { SwitchShape } from './models.js';
import type { SystemName } from './systems.js';

export interface CellWork {
  system: SystemName;
  /** Options of `sida serve`, as a user would write them. */
  flags: Record<string, string>;
  pack: string;
  fingerprint: string;
  texts: string[];
  labels: readonly string[];
  /** Index of each text's label. */
  right: number[];
  /** What runs before the clock does. */
  warmUp: readonly string[];
  /** Sentences of one batch. */
  batch: number;
  /** Flat ids, the hottest first; for `static-hot`. */
  hot?: number[];
  /** What a peer makes its model of: a checkpoint, or a shape that it fills with random weights. */
  peer?: { checkpoint: string } | { shape: SwitchShape };
  /** A peer's warm-up and its measured batches each stop at so many seconds, whole batches. */
  peerSeconds?: number;
  arrivals?: ArrivalWork;
}

export interface ArrivalWork {
  /** Requests per second, on average. */
  perSecond: number;
  requests: number;
  seed: number;
}

/** One run of a cell. Times are milliseconds where the name does not say seconds. */
export interface Sample {
  sentences: number;
  tokens: number;
  /** First batch begun to last answer. */
  wallMs: number;
  /** Of one batch: from its begin on the device to its answer; through REST from the arrival. */
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
  /** Requests that were refused or failed; REST only. */
  refused?: number;
  slots: number;
  experts: number;
  slotBytes: number;
  budgetBytes: number;
  peakBytes: number;
  /** Bytes of the whole GPU that were taken before the cell began, and at most while it ran, by its driver. */
  gpuBeforeBytes?: number;
  gpuPeakBytes?: number;
  /** Of the device, expert weights aside. */
  fixedBytes: number;
  needed: number;
  resident: number;
  prefetched: number;
  late: number;
  onDemand: number;
  bytesMoved: number;
  stallSeconds: number;
  passSeconds: number;
  passes: number;
  /** Seconds of the hash-building thread. */
  tableSeconds: number;
  tableWaitSeconds: number;
  /** What Belady's rule with the same look-ahead would have moved; 0 where nobody counted. */
  beladyBytes: number;
  prefetchesBegun: number;
  prefetchesWasted: number;
  /** (MoE layer, token) pairs that tables predicted, and hits among them. */
  routingsPredicted: number;
  routingHitsTop1: number;
  routingHitsTop3: number;
  /** Sentences classified right. */
  rightLabels: number;
  /** sha256 of every label score's bits, in the order of the sentences. */
  digest: string;
  /** What answered each sentence, a digit each. */
  answers: string;
  warnings: string[];
}
