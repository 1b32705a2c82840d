/** OpenTelemetry spans of jobs, which BullMQ makes. Nothing records them without an SDK in the process. */
import { type Attributes, type Span, type Telemetry, TelemetryAttributes } from 'bullmq';
import { UsageError } from '../../config/resolve.js';

/** Attributes with texts of answers. */
const TEXTS = [TelemetryAttributes.JobResult, TelemetryAttributes.JobProgress];

/** Undefined without --tracing. Throws UsageError where the package for it is not installed. */
export async function telemetryOf({ tracing }: { tracing: 'on' | 'off' }): Promise<Telemetry | undefined> {
  if (tracing === 'off') return undefined;
  try {
    const { BullMQOtel } = await import('bullmq-otel');
    const { tracer, contextManager } = new BullMQOtel({ tracerName: 'sida' });
    return { contextManager, tracer: { startSpan: (...how) => withoutTexts(tracer.startSpan(...how)) } };
  } catch (error) {
    throw new UsageError(
      `The "--tracing" option needs the package bullmq-otel (npm install bullmq-otel): ${(error as Error).message}`,
    );
  }
}

function withoutTexts<C>(span: Span<C>): Span<C> {
  const kept = (all: Attributes = {}) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => !TEXTS.includes(name as (typeof TEXTS)[0])));
  const setAttributes = span.setAttributes.bind(span);
  const addEvent = span.addEvent.bind(span);
  span.setAttributes = (attributes) => setAttributes(kept(attributes));
  span.addEvent = (name: string, attributes?: Attributes) => addEvent(name, kept(attributes));
  return span;
}
