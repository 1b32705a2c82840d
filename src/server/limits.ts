import { REQUEST_BOUNDS } from '../text/json-shape.js';

/** Limits on what any client can cost the server. Each task in src/tasks limits its own requests. */
export const LIMITS = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 5_000,
  connections: 2_048,
  /** Connections of that limit that are kept for new clients; shedding.ts says which are closed to make room. */
  connectionsKeptFree: 128,
  /** Connections of one client address, without an option that says otherwise. */
  connectionsOfOne: 1_024,
  /** Time that a connection has to send a request, and a request to send its body, before it may be closed for room. */
  connectionGraceMs: 1_000,
  /** Above so many connections, probes take turns, and those rest that send nothing else; see connection-room.ts. */
  connectionsAtEase: 64,
  /** A client with no more connections than that rests only where all clients together have more than the second. */
  connectionsOfOneAtEase: 8,
  connectionsOfAllAtEase: 256,
  /** Answers in a row that were no work, from which on a connection rests. */
  probesInARow: 3,
  /** Such answers of all connections per second, which set how long each rests. */
  probesPerSecond: 250,
  /** Longest rest: shorter than `keepAliveTimeoutMs`. */
  longestRestMs: 4_000,
  /**
   * Time for which a connection is held before it is closed; see connection-room.ts. That its client has gone shows
   * only then, and all that clients have left must be gone 30 s after them.
   */
  heldMs: 20_000,
  /** Connections that wait in the kernel to be accepted. More would be dropped, and come back after a second. */
  backlog: 2_048,
  /** Near the limit of connections, requests whose bodies arrive slower make way for new clients. */
  crowdedBytesPerSecond: 16 * 1024,
  headerBytes: 16 * 1024,
  bodyBytes: 1024 * 1024,
  jsonDepth: REQUEST_BOUNDS.depth,
  jsonFields: REQUEST_BOUNDS.fields,
  jsonCommas: REQUEST_BOUNDS.commas,
  /** Event streams of one kept job, and of all kept jobs of one key; without keys, of one client address. */
  streamsOfJob: 128,
  streamsOfOwner: 512,
  /** Answer bytes buffered for a slow reader, in addition to its largest event. */
  streamBufferBytes: 256 * 1024,
  /** Whole answers that their clients have not read yet, together; the largest, of long token ids, are of 8 MiB. */
  unreadBytes: 128 * 1024 ** 2,
  /** What all late readers of jobs' events together have missed and not taken yet, about. */
  missedBytes: 128 * 1024 ** 2,
  /** Events after which those that a late reader has missed are joined again. */
  streamEventsJoined: 1_024,
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
  /** After the termination signal, requests are accepted until none arrives for `quietMs`, at most for `settleMs`. */
  quietMs: 20,
  settleMs: 100,
} as const;
