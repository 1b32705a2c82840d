/** The API process's view of the engine process. */
import type { ErrorBody } from '../errors.js';
import type {
  ControlReply,
  ControlRequest,
  EngineCounters,
  JobRequest,
  JobResult,
  ModelInfo,
} from '../protocol/engine-messages.js';
import type { OnDelta } from './delta-taker.js';

export type EnginePhase =
  | 'starting'
  | 'converting'
  | 'loading'
  | 'ready'
  | 'restarting'
  | 'failed'
  | 'closed';

interface EngineProgress {
  phase: 'convert' | 'hash' | 'load';
  done: number;
  total: number;
}

export interface EngineState {
  /** `restarting` follows a crash; `failed` is final: the model cannot be served. */
  phase: EnginePhase;
  /** One line for people: what it is doing, or why it is not ready. */
  detail: string;
  progress?: EngineProgress;
  /** Present when `failed`. */
  error?: ErrorBody;
}

export interface RunOptions {
  /** Aborting cancels the job; the run then rejects with `cancelled`. */
  signal: AbortSignal;
  /** Receives the deltas of a stream, in order. */
  onDelta?: OnDelta;
}

export interface EngineHandle {
  readonly state: EngineState;
  /** Kept while the engine restarts; undefined until it was ready once. */
  readonly model: ModelInfo | undefined;
  readonly counters: EngineCounters | undefined;
  /** Times the engine process was started again after a crash. */
  readonly restarts: number;
  start(): void;
  /** Runs one job. Rejects with SidaError; a crash of the engine rejects with `engine_crashed`. */
  run(id: string, request: JobRequest, options: RunOptions): Promise<JobResult>;
  control(request: ControlRequest): Promise<ControlReply>;
  /** Calls `listener` at every change of state; returns what removes it. */
  onState(listener: (state: EngineState) => void): () => void;
  /** Stops taking jobs, lets running ones finish for up to `drainMs`, then ends the process. */
  close(drainMs: number): Promise<void>;
}
