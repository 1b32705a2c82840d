/** Closes connections while the server drains, and after an answer whose request body is still arriving. */
import type { Request, RequestHandler } from 'express';
import { SidaError } from '../../errors.js';
import type { ServerContext } from '../context.js';
import { LIMITS } from '../limits.js';

/** Paths of probes and scrapes, which a draining server still answers. */
const OPEN_WHILE_DRAINING = new Set(['/health', '/health/live', '/health/ready', '/metrics']);

/** Requests that a draining server still answers: probes, scrapes, and reads of accepted jobs. */
function staysOpen({ method, path }: Request): boolean {
  return OPEN_WHILE_DRAINING.has(path) || (method === 'GET' && path.startsWith('/v1/jobs/'));
}

/**
 * Reads and drops the rest of the body for LIMITS.unreadBodyMs. Closing a socket with unread bytes would send a reset,
 * which can overtake the answer. After LIMITS.unreadBodyBytes nothing more is read: the client cannot send on, and has
 * the rest of the time to read its answer.
 */
function readOn(req: Request): void {
  const { socket } = req;
  socket.destroySoon = () => socket.end();
  // Node drops what nobody has read itself, without an end.
  req.read(0);
  let left: number = LIMITS.unreadBodyBytes;
  req.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left <= 0) req.pause();
  });
  setTimeout(() => {
    Reflect.deleteProperty(socket, 'destroySoon');
    if (!req.complete) socket.destroy();
    else if (socket.writableEnded) socket.destroySoon();
  }, LIMITS.unreadBodyMs).unref();
}

export function connection(context: ServerContext): RequestHandler {
  return (req, res, next) => {
    // This must run before Node's own listener, which ends the connection if the client asked for that.
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
