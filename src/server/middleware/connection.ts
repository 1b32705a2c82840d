/** Ends connections that must not live on: while draining, and behind an answered request whose body still comes. */
import type { RequestHandler } from 'express';
import { SidaError } from '../../errors.js';
import type { ServerContext } from '../context.js';
import { LIMITS } from '../limits.js';

/** Probes and scrapes see a draining server for as long as it answers. */
const OPEN_WHILE_DRAINING = new Set(['/health/live', '/health/ready', '/metrics']);

export function connection(context: ServerContext): RequestHandler {
  return (req, res, next) => {
    res.once('finish', () => {
      if (context.draining) req.socket.end();
      if (!req.complete) setTimeout(() => req.complete || req.socket.destroy(), LIMITS.unreadBodyMs).unref();
    });
    if (!context.draining) return next();
    res.setHeader('connection', 'close');
    if (OPEN_WHILE_DRAINING.has(req.path)) return next();
    throw new SidaError({
      code: 'shutting_down',
      message: 'The server is shutting down; send the request again',
    });
  };
}
