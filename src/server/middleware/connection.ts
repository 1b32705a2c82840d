/** Ends connections that must not live on: while draining, and behind an answered request whose body still comes. */
import type { Request, RequestHandler } from 'express';
import { SidaError } from '../../errors.js';
import type { ServerContext } from '../context.js';
import { LIMITS } from '../limits.js';

/** Probes and scrapes see a draining server for as long as it answers. */
const OPEN_WHILE_DRAINING = new Set(['/health/live', '/health/ready', '/metrics']);

/** Connections that poll accepted jobs stay open too. */
function staysOpen({ method, path }: Request): boolean {
  return OPEN_WHILE_DRAINING.has(path) || (method === 'GET' && path.startsWith('/v1/jobs/'));
}

/**
 * Closing over unread bytes would send a reset, which may overtake the answer: they are read and dropped for a while.
 */
function readOn(req: Request): void {
  const { socket } = req;
  socket.destroySoon = () => socket.end();
  const stop = () => {
    Reflect.deleteProperty(socket, 'destroySoon');
    if (!req.complete) socket.destroy();
    else if (socket.writableEnded) socket.destroySoon();
  };
  setTimeout(stop, LIMITS.unreadBodyMs).unref();
}

export function connection(context: ServerContext): RequestHandler {
  return (req, res, next) => {
    // Ahead of Node's own listener, which ends the connection where the client asked for that.
    res.prependOnceListener('finish', () => {
      if (!req.complete) readOn(req);
      if (context.draining) req.socket.end();
    });
    if (!context.draining) return next();
    res.setHeader('connection', 'close');
    if (staysOpen(req)) return next();
    throw new SidaError({
      code: 'shutting_down',
      message: 'The server is shutting down; send the request again',
    });
  };
}
