/**
 * Bounds the cost of connections: how many are open, and that each has one request at a time. Node would answer
 * pipelined requests in turn. But it parses all of them first, and an answer that waits behind another one never learns
 * that its client has left.
 */
import { IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Server as TlsServer } from 'node:tls';
import { clientOf, isThisMachine } from './client-address.js';
import { LIMITS } from './limits.js';

/** Why a connection was closed. */
export type CloseReason = 'pipelined' | 'small_chunks' | 'too_many_connections' | 'too_many_of_address';

interface ConnectionOptions {
  /** Connections that one client address may hold. Undefined: the default, which does not bound this machine. */
  perAddress: number | 'none' | undefined;
  /** Called before a connection is closed. It may still write to the socket. `request` has no answer yet. */
  onClose(reason: CloseReason, socket: Socket, request: IncomingMessage | undefined): void;
}

interface Connection {
  client: string;
  /** Undefined between requests. */
  response: ServerResponse | undefined;
}

export class Connections {
  /** In the order of their latest answers. */
  readonly #open = new Map<Socket, Connection>();
  /** Connections whose handshake of TLS is not done, by address and port of the client, the oldest first. */
  readonly #handshakes = new Map<string, Socket>();
  readonly #options: ConnectionOptions;

  constructor(server: Server | TlsServer, options: ConnectionOptions) {
    this.#options = options;
    const tls = server instanceof TlsServer;
    if (tls) server.on('connection', (socket: Socket) => this.#shakeHands(socket));
    server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
      this.#handshakes.delete(peerOf(socket));
      const client = clientOf(socket.remoteAddress ?? '');
      this.#open.set(socket, { client, response: undefined });
      socket.once('close', () => this.#open.delete(socket));
      this.#parseInSlices(socket);
      this.#bound(this.#mostOf(client), 'too_many_of_address', client);
      this.#bound(LIMITS.connections, 'too_many_connections');
    });
  }

  /** Passes a request on unless the previous one of its connection has no answer yet; that closes the connection. */
  oneAtATime(handle: RequestListener): RequestListener {
    return (req, res) => {
      const { socket } = req;
      const connection = this.#open.get(socket);
      // Node also emits the remaining requests of a closed connection.
      if (connection === undefined) return;
      if (connection.response !== undefined) return this.#close(socket, 'pipelined');
      connection.response = res;
      // Node emits `close` when the answer is written and when the connection is closed.
      res.once('close', () => {
        connection.response = undefined;
        if (this.#open.delete(socket)) this.#open.set(socket, connection);
      });
      if (req.headers['transfer-encoding'] !== undefined) this.#boundChunks(req);
      // What arrived behind the request is parsed first, so that a pipelined request closes the connection before
      // anything runs.
      process.nextTick(() => this.#open.has(socket) && handle(req, res));
    };
  }

  /** Closes those that Node does not know as connections yet. */
  endHandshakes(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
  }

  #shakeHands(socket: Socket): void {
    const peer = peerOf(socket);
    this.#handshakes.set(peer, socket);
    socket.once('close', () => this.#handshakes.get(peer) === socket && this.#handshakes.delete(peer));
    const [oldest] = this.#handshakes.values();
    if (this.#handshakes.size > LIMITS.connections) this.#close(oldest!, 'too_many_connections');
  }

  /** Parses nothing more of the connection, which must be closed. Returns the answer that it waits for. */
  forget(socket: Socket): ServerResponse | undefined {
    const response = this.#open.get(socket)?.response;
    this.#open.delete(socket);
    return response;
  }

  /** Resolves true when all present requests are answered, false when `limitMs` passes first. */
  answered(limitMs: number): Promise<boolean> {
    const closed = [...this.#open.values()].map(
      ({ response }) => response && new Promise((resolve) => response.once('close', resolve)),
    );
    return Promise.race([Promise.all(closed).then(() => true), delay(limitMs, false, { ref: false })]);
  }

  /** Node's parser emits all requests and chunks of the bytes that it gets, even if the socket is closed meanwhile. */
  #parseInSlices(socket: Socket): void {
    const [parse] = socket.listeners('data') as ((bytes: Buffer) => void)[];
    if (parse === undefined) return;
    socket.off('data', parse).on('data', (bytes: Buffer) => {
      for (let at = 0; at < bytes.length && this.#open.has(socket); at += LIMITS.sliceBytes) {
        parse.call(socket, bytes.subarray(at, at + LIMITS.sliceBytes));
      }
    });
  }

  /** Closes a connection whose body comes in small chunks: each takes as much time as a large one. */
  #boundChunks(req: IncomingMessage): void {
    let chunks = 0;
    let bytes = 0;
    req.push = (chunk: Buffer | null, encoding) => {
      bytes += chunk?.length ?? 0;
      chunks += 1;
      if (chunks <= LIMITS.smallChunks + bytes / LIMITS.smallChunkBytes) {
        return IncomingMessage.prototype.push.call(req, chunk, encoding);
      }
      if (this.#open.has(req.socket)) this.#close(req.socket, 'small_chunks');
      return false;
    };
  }

  /**
   * If there are more than `most` connections, of `client` or of all, closes the first one that waits for a request. It
   * is the new one when all others are being answered.
   */
  #bound(most: number, reason: CloseReason, client?: string): void {
    if (this.#open.size <= most) return;
    let count = 0;
    let waiting: Socket | undefined;
    for (const [socket, { client: own, response }] of this.#open) {
      if (client !== undefined && own !== client) continue;
      count += 1;
      if (response === undefined || !response.req.complete) waiting ??= socket;
    }
    if (count > most && waiting !== undefined) this.#close(waiting, reason);
  }

  #mostOf(client: string): number {
    const { perAddress = isThisMachine(client) ? 'none' : LIMITS.connectionsOfOne } = this.#options;
    return perAddress === 'none' ? Number.POSITIVE_INFINITY : perAddress;
  }

  #close(socket: Socket, reason: CloseReason): void {
    this.#options.onClose(reason, socket, this.forget(socket)?.req);
    socket.destroy();
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
