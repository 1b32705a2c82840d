/** What the addon's recorder gives. */

/** What one thread recorded, in the order in which its events ended; each array has an entry an event. */
export interface ProfileLane {
  /** Number of the thread. */
  thread: number;
  name: string;
  /** Index into `ops`. */
  op: Uint16Array;
  /** Nanoseconds of the monotonic clock. */
  begin: Float64Array;
  duration: Float64Array;
  /** -1 where an event does not say; so are the following. Of its stack for the op `layer`, flat elsewhere. */
  layer: Int32Array;
  /** Index in its layer. */
  expert: Int32Array;
  tokens: Int32Array;
  batch: Int32Array;
  bytes: Float64Array;
}

export interface NativeProfile {
  beginNs: number;
  endNs: number;
  /** Events that found no room. */
  dropped: number;
  lanes: ProfileLane[];
}

/** Records what all threads of the process do, native ones too. Any thread may call it. */
export interface Recorder {
  readonly ops: readonly { name: string; category: string }[];
  /** Throws cannot_run while a recording runs, out_of_memory. `bytes` bounds its memory, allocated now. */
  start(bytes: number): void;
  /** Throws cannot_run where none runs. */
  stop(): NativeProfile;
  /** Nanoseconds of the monotonic clock; 0 where no recording runs. */
  now(): number;
  /** An event of the calling thread that ends now. */
  record(op: number, beginNs: number, tokens?: number, batch?: number): void;
  /** Names the calling thread in profiles to come. */
  nameThread(name: string): void;
}
