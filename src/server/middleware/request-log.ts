/** Gives each request an id, and logs and counts it once, when its answer has ended or its client has gone away. */
import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';
import type { ServerContext } from '../context.js';
import { callerOf } from './auth.js';

export function newRequestId(): string {
  return `req_${randomUUID().replaceAll('-', '')}`;
}

/** An answer leads to its log lines by its id. A valid `x-request-id` of the client is kept. */
export const requestId: RequestHandler = (req, res, next) => {
  const given = req.headers['x-request-id'];
  const id = typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : newRequestId();
  res.locals.requestId = id;
  res.setHeader('x-request-id', id);
  next();
};

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
      logger[isLook(req.method, route, status) ? 'debug' : 'info'](
        {
          requestId: res.locals.requestId,
          method: req.method,
          path: req.path.slice(0, 200),
          ...(res.locals.caller !== undefined && { key: callerOf(res).owner }),
          ...traceOf(req.headers.traceparent),
          status,
          ms: Math.round(seconds * 1e6) / 1e3,
        },
        'request',
      );
    });
    next();
  };
}

/** The trace that the client counts the request to, by the W3C's Trace Context. */
function traceOf(parent: unknown): { traceId?: string } {
  const id =
    typeof parent === 'string' ? /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-/.exec(parent)?.[1] : undefined;
  return id === undefined ? {} : { traceId: id };
}

/** Polls of pages, probes and scrapes come each second, and run nothing. */
function isLook(method: string, route: string, status: number): boolean {
  return (method === 'GET' || method === 'HEAD') && (status < 400 || route.startsWith('/health'));
}

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']);
