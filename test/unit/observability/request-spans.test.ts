// Spans of requests, as an SDK in the process gets them.
import { EventEmitter } from 'node:events';
import { context, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import type { Request, Response } from 'express';
import pino from 'pino';
import { afterEach, expect, it, vi } from 'vitest';
import { requestSpans } from '../../../src/observability/request-spans.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';

afterEach(() => {
  trace.disable();
  context.disable();
});

function registered(): InMemorySpanExporter {
  const exporter = new InMemorySpanExporter();
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
  return exporter;
}

/** A request that ends at once. */
async function ask(sent: { headersSent: boolean; statusCode: number }): Promise<void> {
  const spans = await requestSpans({ tracing: 'on' }, pino({ level: 'silent' }));
  const headers = { traceparent: `00-${TRACE}-b7ad6b7169203331-01` };
  const res = Object.assign(new EventEmitter(), { locals: { requestId: 'a' }, ...sent });
  spans!({ method: 'GET', headers } as unknown as Request, res as unknown as Response, () => {});
  res.emit('close');
}

it('are children of the span that is active, whatever the client sends', async () => {
  const exporter = registered();
  const around = trace.getTracer('http').startSpan('of an instrumentation');
  await context.with(trace.setSpan(context.active(), around), () =>
    ask({ headersSent: true, statusCode: 200 }),
  );
  const [span] = exporter.getFinishedSpans();
  expect(span!.parentSpanContext?.spanId).toBe(around.spanContext().spanId);
  expect(span!.spanContext().traceId).not.toBe(TRACE);
});

it('have only a status that was sent', async () => {
  const exporter = registered();
  await ask({ headersSent: false, statusCode: 200 });
  await ask({ headersSent: true, statusCode: 200 });
  const spans = exporter.getFinishedSpans();
  expect(spans.map(({ attributes }) => attributes['http.response.status_code'])).toEqual([undefined, 200]);
  expect(spans[0]!.spanContext().traceId).toBe(TRACE);
});

it('are missing without an SDK, which a warning tells once', async () => {
  const logger = pino({ level: 'silent' });
  const warn = vi.spyOn(logger, 'warn');
  await requestSpans({ tracing: 'off' }, logger);
  expect(warn).not.toHaveBeenCalled();
  await requestSpans({ tracing: 'on' }, logger);
  expect(warn.mock.calls).toEqual([[expect.stringMatching(/no spans are sent/)]]);
  registered();
  await requestSpans({ tracing: 'on' }, logger);
  expect(warn).toHaveBeenCalledOnce();
});
