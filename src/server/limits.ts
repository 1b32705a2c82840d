/** Bounds of what a client may cost before its request is understood. */
export const LIMITS = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 5_000,
  connections: 1_024,
  /** Of these, for clients that speak: silent ones make way. */
  connectionsKeptFree: 64,
  headerBytes: 16 * 1024,
  bodyBytes: 1024 * 1024,
  jsonDepth: 32,
  /** Of all objects of a body: 32 inputs with 64 template fields have half as many. */
  jsonFields: 4096,
  /** Inputs or prompts of one request. */
  inputs: 32,
  /** Template fields of one input. */
  fields: 64,
  labels: 64,
  labelBytes: 1024,
  stops: 4,
  stopBytes: 1024,
  logprobs: 5,
  /** Choices of one prompt, and of all prompts of a request together. */
  choices: 16,
  allChoices: 64,
  /** Most tokens that `top_k` may leave to choose from. */
  topK: 1_000_000,
  /** Answer bytes kept for a client that reads slowly, besides its largest event. */
  streamBufferBytes: 256 * 1024,
  /**
   * A stream that has ended is closed when its reader takes nothing for so long, or twice as long. Kernels tell of what was taken
   * once it is a third of their buffers, a megabyte or so: readers of 20 KiB a second shall be served.
   */
  streamStallMs: 60_000,
  /** A stream with nothing to tell sends a comment so often: an idle connection would be closed. */
  streamBeatMs: 15_000,
  /** How long the rest of a refused body is read and dropped, so that the client sees the answer and not a reset. */
  unreadBodyMs: 1_000,
  /** Requests on their way at the signal to end are taken until none came for `quietMs`, for `settleMs` at most. */
  quietMs: 20,
  settleMs: 100,
} as const;
