/** Types of the addon's recorder. */

/** The events of one thread, in the order in which they ended. Each array has one entry per event. */
export interface ProfileLane {
  /** Number of the thread. */
  thread: number;
  name: string;
  /** Index into `ops`. */
  op: Uint16Array;
  /** Nanoseconds of the monotonic clock. */
  begin: Float64Array;
  duration: Float64Array;
  /**
   * Layer number: within its stack for the op `layer`, flat for the other ops. -1 when the event has none, as in the
   * arrays below.
   */
  layer: Int32Array;
  /** Index of the expert in its layer. */
  expert: Int32Array;
  tokens: Int32Array;
  batch: Int32Array;
  bytes: Float64Array;
}

export interface NativeProfile {
  beginNs: number;
  endNs: number;
  /** Events that were dropped because the memory was full. */
  dropped: number;
  lanes: ProfileLane[];
}

/** Records events of all threads of the process, including native ones. Any thread may call it. */
export interface Recorder {
  readonly ops: readonly { name: string; category: string }[];
  /** Starts a recording in `bytes` bytes, allocated now. Throws cannot_run while one runs, and out_of_memory. */
  start(bytes: number): void;
  /** Ends the recording and returns it. Throws cannot_run when none runs. */
  stop(): NativeProfile;
  /** Nanoseconds of the monotonic clock. 0 while no recording runs. */
  now(): number;
  /** Records an event of the calling thread that ends now. */
  record(op: number, beginNs: number, tokens?: number, batch?: number): void;
  /** Names the calling thread in later profiles. */
  nameThread(name: string): void;
}
