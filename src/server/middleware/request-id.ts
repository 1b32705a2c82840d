/**
 * Gives each request an id, so that an answer leads to its log lines. A valid `x-request-id` of the client is kept.
 */
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
