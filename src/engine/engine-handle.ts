/** The API process's view of the engine process. */
import type { ErrorBody } from '../errors.js';
import type { DeviceName, Isa } from '../native/addon-types.js';
import type {
  ControlReply,
  ControlRequest,
  EngineCounters,
  JobRequest,
  JobResult,
  JobTimes,
  ModelInfo,
  OpeningPhase,
} from '../protocol/engine-messages.js';
import type { GrammarFigures } from '../protocol/grammar-messages.js';
import type { TokenizerFigures } from '../protocol/tokenizer-messages.js';
import type { OnDelta } from './delta-taker.js';

export const ENGINE_PHASES = [
  'idle',
  'starting',
  'converting',
  'loading',
  'ready',
  'restarting',
  'failed',
  'closed',
] as const;
export type EnginePhase = (typeof ENGINE_PHASES)[number];

interface EngineProgress {
  phase: OpeningPhase;
  done: number;
  total: number;
}

export interface EngineState {
  /** `idle`: not loaded until a request comes. `restarting` follows a crash. `failed` is final. */
  phase: EnginePhase;
  /** One line for people: current activity, or why the engine is not ready. */
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
  times?: JobTimes;
}

export interface EngineHandle {
  readonly state: EngineState;
  /** Kept while the engine restarts; undefined until the engine has been ready once. */
  readonly model: ModelInfo | undefined;
  /** What the engine computes with; undefined until it has been ready once, and for engines of other processes. */
  readonly computes: { device: DeviceName; isa: Isa } | undefined;
  readonly counters: EngineCounters | undefined;
  /** Figures of the tokenizer thread; undefined if there is none. */
  readonly tokenizer: TokenizerFigures | undefined;
  /** Figures of the grammar threads; undefined where there are none, as for engines of other processes. */
  readonly grammars: GrammarFigures | undefined;
  /** Number of times that the engine process was restarted after a crash. */
  readonly restarts: number;
  start(): void;
  /** Ends the process until the next start, unless jobs run. Absent for engines of other processes. */
  unload?(): Promise<void>;
  /** Runs one job. Rejects with SidaError; the code is `engine_crashed` if the engine process ends. */
  run(id: string, request: JobRequest, options: RunOptions): Promise<JobResult>;
  control(request: ControlRequest): Promise<ControlReply>;
  /** Calls `listener` on every change of state. Returns a function that removes it. */
  onState(listener: (state: EngineState) => void): () => void;
  /** Refuses new jobs, lets running ones finish for up to `drainMs`, then ends the process. */
  close(drainMs: number): Promise<void>;
}
