/** Requires a key on every path, known or unknown, except the public ones. Each route then requires its scope. */
import type { IncomingMessage } from 'node:http';
import type { RequestHandler, Response } from 'express';
import { ANYONE, type Caller, type KeyRing } from '../../access/key-ring.js';
import type { RouteScope } from '../../access/scopes.js';
import { SidaError } from '../../errors.js';
import type { JobRequest } from '../../protocol/engine-messages.js';
import { clientOf } from '../client-address.js';

export function auth(keys: KeyRing, publicPaths: ReadonlySet<string>): RequestHandler {
  return (req, res, next) => {
    if (keys.size > 0 && !publicPaths.has(req.path)) {
      const { key, where } = keyOf(req);
      res.locals.caller = keys.find(key);
      if (res.locals.caller === undefined) {
        res.setHeader('www-authenticate', 'Bearer');
        throw new SidaError({
          code: 'unauthorized',
          message:
            key === ''
              ? 'Expected the authorization header to be "Bearer" and an API key'
              : `This server does not know the API key of the ${where} header`,
        });
      }
    }
    next();
  };
}

/** Anthropic's clients send their key in a header of its own. */
function keyOf({ headers }: IncomingMessage): { key: string; where: string } {
  const { authorization = '', 'x-api-key': own } = headers;
  if (authorization === '' && typeof own === 'string') return { key: own, where: 'x-api-key' };
  const key = /^bearer (.*)$/i.exec(authorization)?.[1] ?? '';
  return { key, where: 'authorization' };
}

/** The caller that `auth` has found; ANYONE on public paths and without keys. */
export function callerOf(res: Response): Caller {
  return (res.locals.caller as Caller | undefined) ?? ANYONE;
}

/** Names whom limits count a request for: its key, or without keys its address. */
export function payerOf(res: Response): string {
  const caller = callerOf(res);
  return caller === ANYONE ? `address ${clientOf(res.req.socket.remoteAddress ?? '')}` : caller.owner;
}

/** Throws forbidden when the caller lacks the scope. */
export function requireScope(res: Response, scope: RouteScope): void {
  if (scope === 'public' || scope === 'any' || callerOf(res).scopes.has(scope)) return;
  throw new SidaError({ code: 'forbidden', message: `This key lacks the scope "${scope}"` });
}

/** Whether the caller may see, and decide, what other keys share with it. */
export function seesOthers(res: Response, keys: KeyRing): boolean {
  return keys.size <= 1 || callerOf(res).scopes.has('admin');
}

/**
 * Throws forbidden for a request whose answer would report experts, unless the caller sees others: which experts are
 * resident shows what was asked before.
 */
export function requireExperts(
  res: Response,
  keys: KeyRing,
  { explain = false, tokenExperts = false }: JobRequest,
): void {
  if (!(explain || tokenExperts) || seesOthers(res, keys)) return;
  throw new SidaError({
    code: 'forbidden',
    message: `This key lacks the scope "admin", which "${explain ? '' : 'token_'}experts" in "include" needs on a server with several keys`,
    param: 'include',
  });
}
