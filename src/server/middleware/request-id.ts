/** Names each request, in the words of the client when they are sane, so that an answer leads to its log lines. */
import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';

export function newRequestId(): string {
  return `req_${randomUUID().replaceAll('-', '')}`;
}

export const requestId: RequestHandler = (req, res, next) => {
  const given = req.headers['x-request-id'];
  const id = typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : newRequestId();
  res.locals.requestId = id;
  res.setHeader('x-request-id', id);
  next();
};
