/** Asks for the key on every path, known or not, except the public list. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { RequestHandler } from 'express';
import { SidaError } from '../../errors.js';

/** Probes of orchestrators carry no key. */
export const PUBLIC_PATHS: ReadonlySet<string> = new Set(['/health/live', '/health/ready']);

export function auth(apiKey: string | undefined): RequestHandler {
  if (apiKey === undefined) return (_req, _res, next) => next();
  const expected = digest(apiKey);
  return (req, res, next) => {
    if (PUBLIC_PATHS.has(req.path)) return next();
    const header = req.headers.authorization ?? '';
    // Digests have one length, so the comparison takes the same time whatever the key.
    const given = digest(header.startsWith('Bearer ') ? header.slice('Bearer '.length) : '');
    if (timingSafeEqual(given, expected)) {
      res.locals.owner = given.toString('hex');
      return next();
    }
    res.setHeader('www-authenticate', 'Bearer');
    throw new SidaError({
      code: 'unauthorized',
      message: 'Expected the authorization header to be "Bearer" and the API key',
    });
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
