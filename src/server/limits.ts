/** Bounds of what a client may cost, whatever its request asks for. Each task bounds its own requests: src/tasks. */
export const LIMITS = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 5_000,
  connections: 1_024,
  /** Of these, kept for active clients: idle connections are closed to make room. */
  connectionsKeptFree: 64,
  headerBytes: 16 * 1024,
  bodyBytes: 1024 * 1024,
  jsonDepth: 32,
  /** Of all objects of a body. The largest request to classify, 32 inputs with 64 fields, has half as many. */
  jsonFields: 4096,
  /** Answer bytes kept for a client that reads slowly, besides its largest event. */
  streamBufferBytes: 256 * 1024,
  /**
   * A stream that has ended is closed when its reader takes nothing for this time, or for twice this time. Kernels
   * report what was read after a third of their buffers, a megabyte or so; readers of 20 KiB a second must be served.
   */
  streamStallMs: 60_000,
  /** A quiet stream sends a comment this often: proxies close idle connections. */
  streamBeatMs: 15_000,
  /** How long the rest of a refused body is read and dropped, so that the client sees the answer and not a reset. */
  unreadBodyMs: 1_000,
  /** After the signal to end, requests are still taken until none has come for `quietMs`, for `settleMs` at most. */
  quietMs: 20,
  settleMs: 100,
} as const;
