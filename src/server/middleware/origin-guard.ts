/**
 * Keeps web pages of other sites out: a page may make a browser send requests to a local server, under a foreign
 * Origin or, by DNS rebinding, under a foreign Host.
 */
import { isIP } from 'node:net';
import type { RequestHandler } from 'express';
import { isLoopback } from '../../config/parsers.js';
import { SidaError } from '../../errors.js';

const ANY_ADDRESS = new Set(['0.0.0.0', '::']);

export function originGuard(listenHost: string): RequestHandler {
  const configured = listenHost.toLowerCase();
  // Listening on every address has no one name to check, and then a key is required, which a foreign page lacks.
  const allowed = (host: string) => ANY_ADDRESS.has(configured) || isLoopback(host) || host === configured;

  return (req, _res, next) => {
    if (!req.url.startsWith('/')) throw refuse('invalid_request', 'Expected the request target to be a path');
    const host = req.headers.host;
    if (host === undefined) throw refuse('invalid_request', 'The host header is missing');
    const name = hostName(host);
    if (name === undefined || !allowed(name))
      throw refuse('forbidden', 'The host header names another server');
    const origin = req.headers.origin;
    if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
      throw refuse('forbidden', 'Requests from pages of another origin are refused');
    }
    next();
  };
}

/** The name without port and brackets, in lower case; undefined when the header is malformed. */
function hostName(host: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::\d{1,5})?$/i.exec(host);
  if (match === null) return undefined;
  if (match[1] !== undefined) return isIP(match[1]) === 6 ? match[1].toLowerCase() : undefined;
  return match[2]!.toLowerCase();
}

function refuse(code: 'invalid_request' | 'forbidden', message: string): SidaError {
  return new SidaError({ code, message });
}
