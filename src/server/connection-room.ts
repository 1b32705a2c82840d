/**
 * Keeps room for active clients. Near the limit of connections, and at the limit of one client, each new connection
 * closes the one that shedding.ts finds. Otherwise clients that do nothing could block all others until their
 * timeout.
 *
 * Node accepts one connection in each turn of its loop, so connections that ping in every turn, or ask for what
 * takes long, would keep new clients out. While many are open, requests that are no work therefore take turns
 * (probe-turns.ts), and a connection rests after a few of them in a row, and while its request arrives slowly. One
 * that sends a request before the answer to the previous one is held: nothing more is read from it, and it is closed
 * later. A client whose connection were closed at once would be back at once.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ArrivingBodies } from './arriving-bodies.js';
import { clientOf, isThisMachine } from './client-address.js';
import { ConnectionGroups } from './connection-groups.js';
import { LIMITS } from './limits.js';
import { ProbeTurns } from './probe-turns.js';
import { type Connection, chooseVictim, isSlow, type ShedReason } from './shedding.js';

/** What `keepRoom` reports: why it closed a connection, or that there was no room for a new one. */
export type RoomEvent = ShedReason | 'pipelined' | 'too_many_connections' | 'too_many_of_address';

interface RoomOptions {
  /**
   * Connections that one client address may hold; `none` for as many as there are. Undefined: LIMITS.connectionsOfOne,
   * and as many as there are for this machine, where a reverse proxy may run.
   */
  perAddress: number | 'none' | undefined;
  /** Called before the connection is closed. It may still write to the socket. */
  onClose(event: RoomEvent, socket: Socket): void;
  /** Answers a request of a crowd, if that can be done at next to no cost. */
  answerAtOnce(req: IncomingMessage, res: ServerResponse): boolean;
}

const SHEDDING = {
  graceMs: LIMITS.connectionGraceMs,
  leastRate: LIMITS.crowdedBytesPerSecond,
  unreadMs: LIMITS.streamStallMs,
};

/** `app` answers the requests of `server`. `handOver` gives it those that wait. */
export function keepRoom(
  server: Server,
  app: RequestListener,
  { perAddress, onClose, answerAtOnce }: RoomOptions,
): { handOver(): void } {
  const open = new Map<Socket, OpenConnection>();
  const connections = new ConnectionGroups<OpenConnection>();
  /** Open connections of each client. */
  const counts = new Map<string, number>();

  /** A destroyed socket closes its descriptor at once, so it is forgotten before its `close` event. */
  const forget = (connection: OpenConnection) => {
    if (!connections.delete(connection)) return;
    open.delete(connection.socket);
    const left = counts.get(connection.client)! - 1;
    if (left > 0) counts.set(connection.client, left);
    else counts.delete(connection.client);
  };
  const close = (connection: OpenConnection, event: RoomEvent) => {
    forget(connection);
    onClose(event, connection.socket);
    destroy(connection.socket);
  };
  /** Whether there are many connections, and the client has its part in that. */
  const crowded = ({ client }: OpenConnection): boolean =>
    connections.size > LIMITS.connectionsOfAllAtEase ||
    (connections.size > LIMITS.connectionsAtEase && counts.get(client)! > LIMITS.connectionsOfOneAtEase);
  const hold = (connection: OpenConnection) => {
    connection.socket.pause();
    const due = () => connections.has(connection) && close(connection, 'pipelined');
    setTimeout(due, LIMITS.heldMs).unref();
  };
  /** Closes a connection for the new one; closes the new one when there is none. */
  const shed = (added: OpenConnection, event: RoomEvent, scope: { full: boolean; client?: string }) => {
    const victim = chooseVictim(connections.groups, SHEDDING, performance.now(), scope);
    if (victim !== undefined && victim.connection !== added) close(victim.connection, victim.reason);
    else if (scope.full) close(added, event);
  };

  server.on('connection', (socket: Socket) => {
    const added = new OpenConnection(socket);
    const { client } = added;
    open.set(socket, added);
    connections.begin(added, 'beginning');
    counts.set(client, (counts.get(client) ?? 0) + 1);
    socket.once('close', () => forget(added));
    if (counts.get(client)! > mostOf(client, perAddress)) {
      shed(added, 'too_many_of_address', { full: true, client });
    }
    if (connections.size <= FULL) return;
    shed(added, 'too_many_connections', { full: connections.size > LIMITS.connections });
  });

  const restSlow = setInterval(() => {
    const many = connections.size > LIMITS.connectionsAtEase;
    const now = performance.now();
    for (const connection of connections) {
      if (many && isSlow(connection, SHEDDING, now)) connection.pause(restMs(connections.size));
      // Looked at this often, it is known since when nothing was read.
      connection.unread(now);
    }
  }, LIMITS.connectionGraceMs).unref();
  server.once('close', () => clearInterval(restSlow));

  const track = (connection: OpenConnection, req: IncomingMessage, res: ServerResponse) => {
    connection.take(req);
    connections.begin(connection, 'busy');
    res.once('close', () => {
      connection.answered(req, res);
      if (!connections.has(connection)) return;
      connections.begin(connection, connection.waiting > 0 ? 'busy' : connection.idleAs);
      if (connection.pipelined && connection.waiting === 0) hold(connection);
      else if (connection.probes >= probesBeforeRest(connections.size) && crowded(connection)) {
        connection.rest(restMs(connections.size));
      }
    });
  };
  const isFull = () => connections.size >= FULL;
  const bodies = new ArrivingBodies(app, ({ socket }) => {
    const connection = open.get(socket);
    return isFull() && connection !== undefined && isSlow(connection, SHEDDING, performance.now());
  });
  const hasFew = ({ socket }: IncomingMessage) => {
    return (counts.get(open.get(socket)?.client ?? '') ?? 0) <= LIMITS.connectionsOfOneAtEase;
  };
  const handleProbe: RequestListener = (req, res) => {
    const connection = open.get(req.socket);
    if (connection !== undefined) connections.begin(connection, 'busy');
    app(req, res);
  };
  const probes = new ProbeTurns(handleProbe, { isFull, hasFew });
  const serve: RequestListener = (req, res) => {
    const connection = open.get(req.socket);
    if (connection === undefined) return app(req, res);
    if (connection.pipelined || (connection.waiting > 0 && connections.size > LIMITS.connectionsAtEase)) {
      connection.pipelined = true;
      // This response waits for one that never begins, so its own close event would come late.
      setImmediate(() => res.emit('close'));
      return;
    }
    track(connection, req, res);
    if (!isWork(req) && connections.size > LIMITS.connectionsAtEase) {
      if (answerAtOnce(req, res)) return;
      // Until its turn it may be closed for room.
      connections.begin(connection, 'idle');
      probes.add(req, res);
    } else if (isFull() && hasBody(req) && req.headers.expect === undefined) {
      bodies.add(req, res);
    } else {
      // Who expects 100 Continue sends no body before it is handled.
      app(req, res);
    }
  };
  // The body reader sends 100 Continue after the headers have been checked.
  server.on('request', serve).on('checkContinue', serve);
  return {
    handOver() {
      bodies.handOver();
      probes.handOver();
    },
  };
}

const { stackTraceLimit } = Error;

/** Node makes an error for each request of a destroyed socket, and reads its stack, which costs as much as the rest. */
function destroy(socket: Socket): void {
  socket.prependOnceListener('close', () => {
    Error.stackTraceLimit = 0;
  });
  socket.once('close', () => {
    Error.stackTraceLimit = stackTraceLimit;
  });
  socket.destroy();
}

function mostOf(client: string, perAddress: RoomOptions['perAddress']): number {
  if (perAddress === 'none') return Number.POSITIVE_INFINITY;
  if (perAddress !== undefined) return perAddress;
  return isThisMachine(client) ? Number.POSITIVE_INFINITY : LIMITS.connectionsOfOne;
}

/**
 * Time for which each of `count` connections must rest, so that together they get LIMITS.probesPerSecond answers. It
 * varies by half, so that connections of the same moment do not come back in the same moment.
 */
function restMs(count: number): number {
  const ms = (count * 1000) / LIMITS.probesPerSecond;
  return Math.min(LIMITS.longestRestMs, ms) * (0.5 + Math.random() / 2);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** With so many open connections, each new one makes another one go. */
const FULL = LIMITS.connections - LIMITS.connectionsKeptFree;

/**
 * Answers that were no work, after which each of `count` connections rests. Where there is no room, whoever is closed
 * is back at once, and gets another first answer.
 */
function probesBeforeRest(count: number): number {
  return count < FULL ? LIMITS.probesInARow : 1;
}

/** Whether a request asks for work, or for what became of it. */
function isWork({ method, url }: IncomingMessage): boolean {
  return method === 'POST' || url?.startsWith('/v1/jobs/') === true;
}

const EVENTS = /^\/v1\/jobs\/[^/?]+\/events(?:\?|$)/;

class OpenConnection implements Connection {
  readonly socket: Socket;
  readonly client: string;
  doing: Connection['doing'] = 'beginning';
  since = 0;
  /** What it is once all requests are answered. */
  idleAs: 'idle' | 'idleAfterWork' = 'idle';
  /** Whether a request came before the previous one was answered, and was dropped. */
  pipelined = false;
  /** Requests that have begun and are not answered. */
  waiting = 0;
  /** Answers in a row that were no work. */
  probes = 0;
  #latest: IncomingMessage | undefined;
  #everWorked = false;
  /** Bytes received when the last answer ended. */
  #receivedBefore = 0;
  /** Bytes that the client had read when this was last looked at, and since when it was so. */
  #read = { bytes: -1, since: 0 };

  constructor(socket: Socket) {
    this.socket = socket;
    this.client = clientOf(socket.remoteAddress ?? '');
  }

  take(req: IncomingMessage): void {
    this.waiting += 1;
    this.#latest = req;
  }

  answered(req: IncomingMessage, res: ServerResponse): void {
    this.waiting -= 1;
    const asked = isWork(req);
    if (asked && res.statusCode < 400) {
      this.idleAs = 'idleAfterWork';
      this.#everWorked = true;
      this.probes = 0;
    } else if (!asked || !this.#everWorked) {
      this.idleAs = 'idle';
      this.probes += 1;
    }
    // A refused request for work on a connection that has worked: it stays what it was.
    this.#receivedBefore = this.socket.bytesRead;
  }

  /** Reads nothing for `ms`, unless it is at work or ends. */
  rest(ms: number): void {
    if (this.doing === 'busy' || this.#latest?.complete !== true) return;
    this.pause(ms);
  }

  pause(ms: number): void {
    const { socket } = this;
    if (socket.writableEnded || socket.isPaused()) return;
    socket.pause();
    setTimeout(() => socket.resume(), ms).unref();
  }

  receiving(): boolean {
    // With a pipelined request behind it, the one before is being computed.
    return this.waiting === 1 && this.#latest?.complete === false;
  }

  follows(): boolean {
    return this.waiting === 1 && EVENTS.test(this.#latest?.url ?? '');
  }

  received(): number {
    return this.socket.bytesRead - this.#receivedBefore;
  }

  unread(now: number): number {
    const { bytesWritten, writableLength } = this.socket;
    const bytes = bytesWritten - writableLength;
    if (writableLength === 0 || bytes !== this.#read.bytes) this.#read = { bytes, since: now };
    return now - this.#read.since;
  }
}
