/** What the inference loop works with. */
import type { Engine } from '../native/addon-types.js';
import type { StepTables } from '../predictor/step-tables.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import type { QueueConsumer } from '../protocol/hash-table-queue.js';
import type { FromInference, QueuedBatch, ToInference } from '../protocol/inference-messages.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import type { EvictionPolicy } from './eviction/policy.js';

export interface InferenceLoopOptions {
  engine: Engine;
  pageTokens: number;
  maxBatchTokens: number;
  /** Whether KV pages are kept for later inputs, where the model allows it. */
  prefixCache: boolean;
  policy: EvictionPolicy;
  /** MoE layers whose routers name experts ahead; 0 is off. */
  lookAheadLayers: number;
  /** Bandwidth of a simulated link in bytes per second; 0 means none. */
  linkBandwidth: number;
  builderStats: BuilderStats;
  /** Raised while every expert has a slot. */
  resident: SharedFlag;
  /** Raised while tables rest. */
  rest: SharedFlag;
  /** Whether there is a predictor. */
  predicts: boolean;
  /** Whether governors may let tables and looking ahead rest. */
  governed: { tables: boolean; lookAhead: boolean };
  /** Null if generations are not predicted. */
  stepTables: StepTables | null;
  queue: QueueConsumer<QueuedBatch>;
  /** Returns the next control message, or undefined if none has arrived. */
  nextControl: () => ToInference | undefined;
  emit: (message: FromInference) => void;
}
