import { openApiDocument } from '../openapi.js';
import type { Route } from './route.js';

/** `table` is called at the first request, because the table contains this route itself. */
export function openapiRoute(table: () => readonly Route[]): Route {
  let document: string | undefined;
  return {
    method: 'get',
    path: '/openapi.json',
    scope: 'any',
    summary: 'This interface as an OpenAPI 3.1 document',
    answers: { 200: { description: 'The document' } },
    handle(_context, _req, res) {
      document ??= JSON.stringify(openApiDocument(table()));
      res.type('application/json').send(document);
    },
  };
}
