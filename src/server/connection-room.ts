/**
 * Keeps room for active clients. Near the limit of connections, each new connection closes the oldest one that has
 * sent no request yet. Otherwise idle sockets could block all other clients until their timeout.
 */
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from './limits.js';

/** `onShed` is called for each connection that is closed to make room. */
export function keepRoom(server: Server, onShed: () => void): void {
  /** Connections whose first request headers are not complete, in the order of their arrival. */
  const silent = new Set<Socket>();
  let open = 0;
  server.on('connection', (socket: Socket) => {
    open += 1;
    silent.add(socket);
    socket.once('close', () => {
      open -= 1;
      silent.delete(socket);
    });
    if (open <= LIMITS.connections - LIMITS.connectionsKeptFree) return;
    const [oldest] = silent;
    if (oldest === undefined || oldest === socket) return;
    silent.delete(oldest);
    oldest.destroy();
    onShed();
  });
  const spoke = ({ socket }: IncomingMessage) => silent.delete(socket);
  server.on('request', spoke).on('checkContinue', spoke).on('checkExpectation', spoke);
}
