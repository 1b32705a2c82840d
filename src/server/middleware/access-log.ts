/** Logs and counts each request once, when its answer has ended or its client has gone away. */
import type { RequestHandler } from 'express';
import type { ServerContext } from '../context.js';
import { callerOf } from './auth.js';

export function accessLog({ logger, metrics }: ServerContext): RequestHandler {
  return (req, res, next) => {
    const start = performance.now();
    res.once('close', () => {
      const seconds = (performance.now() - start) / 1000;
      const status = res.writableFinished ? res.statusCode : 499;
      // Only paths of the route table become labels, so that clients cannot create new label values.
      const route = typeof req.route?.path === 'string' ? req.route.path : 'unmatched';
      const method = KNOWN_METHODS.has(req.method) ? req.method : 'other';
      metrics.observeRequest({ route, method, status, seconds });
      logger.info(
        {
          requestId: res.locals.requestId,
          method: req.method,
          path: req.path.slice(0, 200),
          ...(res.locals.caller !== undefined && { key: callerOf(res).owner }),
          status,
          ms: Math.round(seconds * 1e6) / 1e3,
        },
        'request',
      );
    });
    next();
  };
}

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']);
