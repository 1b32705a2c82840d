/** Generates the OpenAPI document from the route table. */
import { OpenAPIRegistry, OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { VERSION } from '../version.js';
import type { Route, RouteAnswer } from './route.js';
import { ErrorAnswer } from './schemas/service.js';

export function openApiDocument(routes: readonly Route[]) {
  const registry = new OpenAPIRegistry();
  const bearer = registry.registerComponent('securitySchemes', 'apiKey', { type: 'http', scheme: 'bearer' });
  const header = { type: 'apiKey' as const, in: 'header' as const, name: 'x-api-key' };
  const inHeader = registry.registerComponent('securitySchemes', 'apiKeyHeader', header);
  for (const route of routes) {
    const { params, query, headers, body } = route;
    registry.registerPath({
      method: route.method,
      path: route.path.replace(/:(\w+)/g, '{$1}'),
      operationId: operationOf(route),
      tags: [tagOf(route.path)],
      summary: route.summary,
      security: route.scope === 'public' ? [] : [{ [bearer.name]: [] }, { [inHeader.name]: [] }],
      request: {
        ...(params !== undefined && { params }),
        ...(query !== undefined && { query }),
        ...(headers !== undefined && { headers }),
        ...(body !== undefined && {
          body: { required: true, content: { 'application/json': { schema: body } } },
        }),
      },
      responses: {
        ...Object.fromEntries(
          Object.entries(route.answers).map(([status, answer]) => [status, describe(answer)]),
        ),
        default: {
          description: 'An error; `x-request-id` names the request in the log',
          content: { 'application/json': { schema: route.error ?? ErrorAnswer } },
        },
      },
    });
  }
  return new OpenApiGeneratorV31(registry.definitions).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'sida',
      version: VERSION,
      description: 'Serves Mixture-of-Experts models in a fraction of the memory they need',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
  });
}

/** Such as `postV1ChatCompletions`. Generated clients name their functions by it. */
function operationOf({ method, path }: Route): string {
  const words = path.match(/\w+/g) ?? ['page'];
  return method + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
}

const TAGS = [
  ['/v1/messages', 'Anthropic'],
  ['/api/', 'Ollama'],
  ['/v1/jobs', 'Jobs'],
  ['/admin/', 'Admin'],
  ['/v1/', 'Inference'],
] as const;

function tagOf(path: string): string {
  return TAGS.find(([prefix]) => path.startsWith(prefix))?.[1] ?? 'Service';
}

function describe({ description, schema, contentType = 'application/json' }: RouteAnswer) {
  const content = { [contentType]: schema === undefined ? { schema: {} } : { schema } };
  return { description, content };
}
