/** One row of the route table, with all that the Express application and the OpenAPI document need. */
import type { Request, Response } from 'express';
import type { z } from 'zod';
import type { RouteScope } from '../access/scopes.js';
import type { ServerContext } from './context.js';

export interface RouteAnswer {
  description: string;
  schema?: z.ZodType;
  /** Set when the answer is not JSON. */
  contentType?: string;
}

export interface Route {
  method: 'get' | 'post' | 'put' | 'delete';
  /** Path in Express's syntax, such as `/v1/models/:id`. */
  path: string;
  scope: RouteScope;
  summary: string;
  /** Schema of the parameters in the path. A path that does not match it gives 404. */
  params?: z.ZodObject;
  /** Schema of the query that the route reads. Other fields are ignored. */
  query?: z.ZodObject;
  /** Schema of the headers that the route reads, by lower-case names. */
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Present if fields that have no effect are named in a header, unknown ones too: the known ones. */
  ignores?: readonly string[];
  /** Whether its requests become jobs, which /v1/quote takes. */
  quotes?: true;
  answers: Record<number, RouteAnswer>;
  /** Schema of its error answers. Default: that of OpenAI's. */
  error?: z.ZodType;
  /**
   * Handles a request. `body` has been parsed if the route has a body schema. A rejection becomes an error answer.
   */
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
