import { REQUEST_BOUNDS } from '../text/json-shape.js';

/** Limits on what any client can cost the server. Each task in src/tasks limits its own requests. */
export const LIMITS = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  /** How often the files of a certificate are looked at. */
  certificateMs: 1_000,
  connections: 2_048,
  /** Connections of one client address, without an option that says otherwise. */
  connectionsOfOne: 1_024,
  /**
   * Connections that wait in the kernel to be accepted, which takes no more (net.core.somaxconn). Further ones are
   * dropped, and come back after one second or three.
   */
  backlog: 4_096,
  /** Bytes that Node's parser gets at once. */
  sliceBytes: 512,
  /** A body may have so many chunks, and one more for every `smallChunkBytes`. */
  smallChunks: 64,
  smallChunkBytes: 64,
  headerBytes: 16 * 1024,
  /** Bodies beyond this are refused while all that arrive have `bodiesBytes` together. */
  smallBodyBytes: 1024 * 1024,
  bodiesBytes: 512 * 1024 ** 2,
  jsonDepth: REQUEST_BOUNDS.depth,
  jsonFields: REQUEST_BOUNDS.fields,
  jsonCommas: REQUEST_BOUNDS.commas,
  /** Event streams of one key; without keys, of one client address. */
  streamsOfOwner: 512,
  /** Answer bytes buffered for a slow reader, in addition to its largest event. */
  streamBufferBytes: 256 * 1024,
  /** Large answers and events of jobs that clients have not read yet, together. */
  unreadBytes: 128 * 1024 ** 2,
  /**
   * The connection of an ended stream is closed when its reader takes nothing for one to two times this time. A
   * kernel reports progress only after about a third of its buffer, roughly a megabyte, so a reader of 20 KiB/s needs
   * this long.
   */
  streamStallMs: 60_000,
  /** Time between comments on a stream. They keep proxies from closing a quiet connection. */
  streamBeatMs: 15_000,
  /**
   * Time for which the rest of a refused body is read and dropped, so that the client gets the answer, not a reset.
   */
  unreadBodyMs: 1_000,
  /** Bytes of it that are read at most: a fast client sends a gigabyte in that time, and each piece is new memory. */
  unreadBodyBytes: 8 * 1024 * 1024,
  /** After the termination signal, requests that are on their way are accepted for this time. */
  settleMs: 100,
} as const;
