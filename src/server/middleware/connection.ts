/** Ends connections that must not live on: while draining, and behind an answered request whose body still comes. */
import type { Request, RequestHandler } from 'express';
import { SidaError } from '../../errors.js';
import type { ServerContext } from '../context.js';
import { LIMITS } from '../limits.js';

/** Probes and scrapes see a draining server for as long as it answers. */
const OPEN_WHILE_DRAINING = new Set(['/health/live', '/health/ready', '/metrics']);

/** So do those who ask for jobs that were accepted before. */
function staysOpen({ method, path }: Request): boolean {
  return OPEN_WHILE_DRAINING.has(path) || (method === 'GET' && path.startsWith('/v1/jobs/'));
}

export function connection(context: ServerContext): RequestHandler {
  return (req, res, next) => {
    res.once('finish', () => {
      if (context.draining) req.socket.end();
      if (!req.complete) setTimeout(() => req.complete || req.socket.destroy(), LIMITS.unreadBodyMs).unref();
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
