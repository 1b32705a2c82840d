/**
 * Refuses requests from web pages of other sites. Such a page can make a browser send requests to a local server,
 * with a foreign Origin or, by DNS rebinding, with a foreign Host.
 */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Request, RequestHandler, Response } from 'express';
import type { ServeOptions } from '../../config/options.js';
import { isLoopback } from '../../config/parsers.js';
import { SidaError } from '../../errors.js';

const ANY_ADDRESS = new Set(['0.0.0.0', '::']);

type GuardOptions = Pick<ServeOptions, 'host' | 'allowedHosts' | 'allowedOrigins'>;

export function originGuard(options: GuardOptions): RequestHandler {
  const faultOf = hostFault(options);
  const origins = new Set(options.allowedOrigins);
  return (req, res, next) => {
    if (!req.url.startsWith('/')) throw refuse('invalid_request', 'Expected the request target to be a path');
    const fault = faultOf(req);
    if (fault !== undefined) throw fault;
    const { origin, host } = req.headers;
    if (origin !== undefined && origins.has(origin)) {
      shareWith(origin, req, res);
      // A browser asks first whether it may, and sends no key with that.
      if (req.method === 'OPTIONS' && req.headers['access-control-request-method'] !== undefined) {
        res.status(204).end();
        return;
      }
    } else if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
      throw refuse(
        'forbidden',
        'Requests from pages of another origin are refused; --allowed-origins lists those that may send them',
      );
    }
    next();
  };
}

/** Finds what is wrong with the host header of a request. */
function hostFault({
  host: listenHost,
  allowedHosts,
}: GuardOptions): (req: IncomingMessage) => SidaError | undefined {
  const configured = listenHost.toLowerCase();
  const names = new Set(allowedHosts);
  const listensEverywhere = ANY_ADDRESS.has(configured);
  const allowed = (name: string) => {
    if (isLoopback(name) || name === configured || names.has(name)) return true;
    // DNS rebinding needs a name, so addresses are safe. The probes of orchestrators use them.
    if (listensEverywhere && isIP(name) !== 0) return true;
    // Without --allowed-hosts there is no name to compare with. The server then requires a key, which a foreign page
    // lacks.
    return listensEverywhere && names.size === 0;
  };

  return ({ headers, headersDistinct }) => {
    const { host } = headers;
    if (host === undefined) return refuse('invalid_request', 'The host header is missing');
    // With two host headers, a proxy may have checked the other one.
    if (headersDistinct.host!.length > 1) return refuse('invalid_request', 'There are two host headers');
    const name = hostName(host);
    if (name !== undefined && allowed(name)) return undefined;
    return refuse(
      'forbidden',
      'The host header names another server; --allowed-hosts lists further names of this one',
    );
  };
}

/** Lets pages of a listed origin read answers. */
function shareWith(origin: string, req: Request, res: Response): void {
  res
    .setHeader('access-control-allow-origin', origin)
    .setHeader('vary', 'origin, access-control-request-headers')
    .setHeader('access-control-allow-methods', 'GET, HEAD, POST, PUT, DELETE')
    .setHeader('access-control-allow-headers', allowedHeaders(req))
    .setHeader('access-control-expose-headers', EXPOSED)
    .setHeader('access-control-max-age', '600');
}

/** The headers that the page asks for: clients add their own, such as the official OpenAI client's x-stainless-*. */
function allowedHeaders(req: Request): string {
  const asked = req.headers['access-control-request-headers'];
  return asked !== undefined && HEADER_NAMES.test(asked) ? asked : USUAL_HEADERS;
}

const USUAL_HEADERS = 'authorization, content-type, idempotency-key, x-request-id';
const HEADER_NAMES = /^[a-z0-9-]{1,64}( ?, ?[a-z0-9-]{1,64}){0,63}$/i;

const EXPOSED =
  'x-request-id, request-id, retry-after, location, idempotent-replayed, x-ignored-fields, x-warnings, x-queue-time, x-inference-time, ' +
  'x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, ' +
  'x-ratelimit-limit-bytes, x-ratelimit-remaining-bytes, x-ratelimit-reset-bytes';

/** The host name in lower case, without port and brackets; undefined when the header is malformed. */
function hostName(host: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::\d{1,5})?$/i.exec(host);
  if (match === null) return undefined;
  if (match[1] !== undefined) return isIP(match[1]) === 6 ? match[1].toLowerCase() : undefined;
  return match[2]!.toLowerCase();
}

function refuse(code: 'invalid_request' | 'forbidden', message: string): SidaError {
  return new SidaError({ code, message });
}
