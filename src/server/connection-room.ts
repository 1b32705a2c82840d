/**
 * Keeps room for clients that speak. Near the limit of connections the one that has been silent for longest makes way
 * for the next: sockets that are only held open would otherwise shut everybody out until their time is over.
 */
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from './limits.js';

/** `onShed` is called for each connection that made way. */
export function keepRoom(server: Server, onShed: () => void): void {
  /** Connections whose first request has not come whole, in the order of their arrival. */
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
