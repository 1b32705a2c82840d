/** OpenTelemetry spans of requests. Nothing records them without an SDK in the process. */
import type { RequestHandler } from 'express';
import type { Logger } from 'pino';
import { UsageError } from '../config/resolve.js';

/** Undefined without --tracing. Throws UsageError where the package for it is not installed. */
export async function requestSpans(
  { tracing }: { tracing: 'on' | 'off' },
  logger: Logger,
): Promise<RequestHandler | undefined> {
  if (tracing === 'off') return undefined;
  const api = await import('@opentelemetry/api').catch((error: unknown) => {
    throw new UsageError(
      `The "--tracing" option needs the package @opentelemetry/api (npm install @opentelemetry/api): ${(error as Error).message}`,
    );
  });
  const { context, propagation, ProxyTracerProvider, SpanKind, SpanStatusCode, trace } = api;
  const provider = trace.getTracerProvider();
  if (provider instanceof ProxyTracerProvider && provider.getDelegateTracer('sida') === undefined)
    logger.warn(
      '--tracing is on, but no spans are sent: no OpenTelemetry SDK is registered (node --import loads one)',
    );
  const tracer = trace.getTracer('sida');
  return (req, res, next) => {
    // The trace of the client's `traceparent` goes on, unless an instrumentation of the SDK has a span for the request.
    const own = trace.getActiveSpan() === undefined;
    const around = own ? propagation.extract(context.active(), req.headers) : context.active();
    const span = tracer.startSpan(req.method, { kind: own ? SpanKind.SERVER : SpanKind.INTERNAL }, around);
    res.once('close', () => {
      const route: unknown = req.route?.path;
      if (typeof route === 'string') span.updateName(`${req.method} ${route}`);
      span.setAttributes({
        'http.request.method': req.method,
        ...(res.headersSent && { 'http.response.status_code': res.statusCode }),
        'sida.request_id': String(res.locals.requestId),
        ...(typeof route === 'string' && { 'http.route': route }),
      });
      if (res.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    context.with(trace.setSpan(around, span), next);
  };
}
