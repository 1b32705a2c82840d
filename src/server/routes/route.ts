/** One row of the route table: enough to register the route and to describe it in the OpenAPI document. */
import type { Request, Response } from 'express';
import type { z } from 'zod';
import type { RouteScope } from '../../access/scopes.js';
import type { ServerContext } from '../context.js';

export interface RouteAnswer {
  description: string;
  schema?: z.ZodType;
  /** Where it is not JSON. */
  contentType?: string;
}

export interface Route {
  method: 'get' | 'post' | 'put' | 'delete';
  /** As Express writes it: `/v1/models/:id`. */
  path: string;
  scope: RouteScope;
  summary: string;
  /** The names in the path. What a path says otherwise is not found. */
  params?: z.ZodObject;
  /** Headers that the route reads, by their names in small letters. */
  headers?: z.ZodObject;
  body?: z.ZodType;
  answers: Record<number, RouteAnswer>;
  /** A rejection becomes an error answer. `body` is read and parsed already where the route has one. */
  handle(context: ServerContext, req: Request, res: Response, body: unknown): void | Promise<void>;
}

/** Ties the handler's `body` to the schema that checks it. */
export function bodyRoute<S extends z.ZodType>(
  route: Omit<Route, 'body' | 'handle'> & {
    body: S;
    handle(context: ServerContext, req: Request, res: Response, body: z.infer<S>): void | Promise<void>;
  },
): Route {
  return {
    ...route,
    handle: (context, req, res, body) => route.handle(context, req, res, body as z.infer<S>),
  };
}
