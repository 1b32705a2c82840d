/** OpenTelemetry spans of requests. Nothing records them without an SDK in the process. */
import type { RequestHandler } from 'express';
import { UsageError } from '../config/resolve.js';

/** Undefined without --tracing. Throws UsageError where the package for it is not installed. */
export async function requestSpans({
  tracing,
}: {
  tracing: 'on' | 'off';
}): Promise<RequestHandler | undefined> {
  if (tracing === 'off') return undefined;
  const api = await import('@opentelemetry/api').catch((error: unknown) => {
    throw new UsageError(
      `The "--tracing" option needs the package @opentelemetry/api (npm install @opentelemetry/api): ${(error as Error).message}`,
    );
  });
  const { context, propagation, SpanKind, SpanStatusCode, trace } = api;
  const tracer = trace.getTracer('sida');
  return (req, res, next) => {
    // The trace of the client's `traceparent` goes on.
    const around = propagation.extract(context.active(), req.headers);
    const span = tracer.startSpan(req.method, { kind: SpanKind.SERVER }, around);
    res.once('close', () => {
      const route: unknown = req.route?.path;
      if (typeof route === 'string') span.updateName(`${req.method} ${route}`);
      span.setAttributes({
        'http.request.method': req.method,
        'http.response.status_code': res.writableFinished ? res.statusCode : 499,
        'sida.request_id': String(res.locals.requestId),
        ...(typeof route === 'string' && { 'http.route': route }),
      });
      if (res.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    context.with(trace.setSpan(around, span), next);
  };
}
