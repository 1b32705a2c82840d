/** Creates the Express application: middleware in the order in which it runs, then the route table. */
import express, { type Express, type RequestHandler } from 'express';
import helmet from 'helmet';
import type { z } from 'zod';
import { SidaError } from '../errors.js';
import { bodyBytesOf } from '../tasks/shared/text-limits.js';
import { nearest } from '../text/nearest.js';
import type { ServerContext } from './context.js';
import { DIALECTS } from './dialects/index.js';
import { readJsonBody } from './json-body.js';
import { auth, requireScope } from './middleware/auth.js';
import { connection } from './middleware/connection.js';
import { errors } from './middleware/errors.js';
import { originGuard } from './middleware/origin-guard.js';
import { accessLog, requestId } from './middleware/request-log.js';
import { checkHeaders, checkParams, parseBody, withoutIgnored } from './request-checks.js';
import type { Route } from './route.js';

export function createApp(context: ServerContext, routes: readonly Route[]): Express {
  const { options } = context;
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false);
  app.use(requestId, accessLog(context), connection(context), securityHeaders());
  if (context.spans !== undefined) app.use(context.spans);
  const open = routes.filter(({ scope }) => scope === 'public').map(({ path }) => path);
  app.use(originGuard(options), auth(context.keys, new Set(open)));
  const paths = [...new Set(routes.map(({ path }) => path))];
  // Some clients do not encode the slash in the name of a model.
  app.get('/v1/models/:org/:name', ({ params: { org, name } }, res, next) => {
    res.req.url = `/v1/models/${encodeURIComponent(`${org}/${name}`)}`;
    next();
  });
  for (const route of routes) app[route.method](route.path, handler(context, route));
  for (const path of paths) {
    app.all(path, methodNotAllowed(routes.filter((route) => route.path === path)));
  }
  app.use((req, _res) => {
    const meant = nearest(
      req.path,
      paths.filter((path) => !path.includes(':')),
    );
    const help = meant === undefined ? '/openapi.json lists them' : `did you mean ${meant}?`;
    throw new SidaError({ code: 'not_found', message: `There is no such route; ${help}` });
  });
  app.use(errors(context, (path) => DIALECTS.find(({ prefix }) => path.startsWith(prefix))?.error));
  return app;
}

function handler(context: ServerContext, route: Route): RequestHandler {
  const strict = context.options.strict === 'on';
  return async (req, res) => {
    const bodyOf = async ({ ignores }: Route, schema: z.ZodType) => {
      const given = await readJsonBody(req, res, bodyBytes(context));
      if (ignores === undefined) return parseBody(schema, given);
      const { used, ignored } = withoutIgnored(given, schema as z.ZodObject, { ignores, strict });
      if (ignored.length > 0) {
        res.setHeader('x-ignored-fields', ignored.join(', '));
        res.locals.warnings = ignored.map((name) => `The field "${name}" has no effect`);
      }
      return parseBody(schema, used);
    };
    requireScope(res, route.scope);
    checkParams(route, req.params);
    checkHeaders(route, req.headers);
    const body = route.body === undefined ? undefined : await bodyOf(route, route.body);
    await route.handle(context, req, res, body);
  };
}

/** The models that are open decide, because a body must be read before it names its model. */
function bodyBytes({ models }: ServerContext): number {
  return bodyBytesOf(Math.max(...models.map(({ engine }) => engine.model?.maxInputBytes ?? 0)));
}

function methodNotAllowed(routes: Route[]): RequestHandler {
  const methods = routes.map(({ method }) => method.toUpperCase());
  const allow = (methods.includes('GET') ? [...methods, 'HEAD'] : methods).join(', ');
  return (_req, res) => {
    res.setHeader('allow', allow);
    throw new SidaError({ code: 'method_not_allowed', message: `The methods of this route are ${allow}` });
  };
}

function securityHeaders(): RequestHandler {
  const self = ["'self'"];
  const none = ["'none'"];
  const headers = helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: none,
        scriptSrc: self,
        // Inline styles stay forbidden. The page sets the widths of its bars through the DOM.
        styleSrc: self,
        connectSrc: self,
        imgSrc: ["'self'", 'data:'],
        baseUri: none,
        formAction: none,
        frameAncestors: none,
      },
    },
    // The server speaks plain HTTP. A proxy that adds TLS also adds this header.
    strictTransportSecurity: false,
  });
  return (req, res, next) => {
    res.setHeader('cache-control', 'no-store');
    headers(req, res, next);
  };
}
