// Spans of requests at a server without Redis, which an SDK in its process records.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MINI, REPO, ServerProcess } from '../../support/server-process.js';

/** Prints each span that ends on a line of its own. */
const SDK = `
import { createRequire } from 'node:module';
const require = createRequire(${JSON.stringify(join(REPO, 'package.json'))});
const { NodeTracerProvider, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const print = (span) => console.log('span ' + JSON.stringify({
  name: span.name, kind: span.kind, trace: span.spanContext().traceId, parent: span.parentSpanContext?.spanId,
  attributes: span.attributes, status: span.status.code }));
const exporter = { export: (spans, done) => { spans.forEach(print); done({ code: 0 }); }, shutdown: async () => {} };
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
`;
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

const folder = mkdtempSync(join(tmpdir(), 'sida-tracing-'));
let server: ServerProcess;
beforeAll(async () => {
  const sdk = join(folder, 'sdk.mjs');
  writeFileSync(sdk, SDK);
  const nodeArgs = ['--import', pathToFileURL(sdk).href];
  server = await ServerProcess.start(['--model', MINI, '--tracing'], 60_000, nodeArgs);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

it('go on with the trace of the client, and have no texts', async () => {
  const body = JSON.stringify({ task: 'sst2', input: 'a secret film' });
  const headers = { 'content-type': 'application/json', traceparent: `00-${TRACE}-${PARENT}-01` };
  const answer = await fetch(`${server.url}/v1/classify`, { method: 'POST', headers, body });
  expect(answer.status).toBe(200);
  await server.until(() => server.output.includes(TRACE));
  const lines = server.output.split('\n').filter((line) => line.startsWith('span ') && line.includes(TRACE));
  expect(lines.map((line) => JSON.parse(line.slice(5)))).toEqual([
    {
      name: 'POST /v1/classify',
      kind: 1,
      trace: TRACE,
      parent: PARENT,
      attributes: {
        'http.request.method': 'POST',
        'http.response.status_code': 200,
        'http.route': '/v1/classify',
        'sida.request_id': answer.headers.get('x-request-id'),
      },
      status: 0,
    },
  ]);
  expect(server.output).not.toContain('secret');
});
