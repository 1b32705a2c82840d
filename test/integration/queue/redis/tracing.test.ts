// Spans of one job on both sides of the queue, which are parts of the trace of the request that it came from.
import { context, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { telemetryOf } from '../../../../src/queue/redis/tracing.js';
import { completion, delta } from '../../../support/queue-conformance/harness.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { openRedisQueues } from '../../../support/redis-queue.js';

describeWithRedis('spans of jobs', () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  let redis: RedisServer;
  beforeAll(async () => {
    provider.register();
    redis = await RedisServer.start();
  });
  afterEach(() => void vi.doUnmock('bullmq-otel'));
  afterAll(async () => {
    await provider.shutdown();
    await redis.end();
  });

  it('are one trace of server and worker, without texts of the answer', async () => {
    const telemetry = await telemetryOf({ tracing: 'on' });
    const side = openRedisQueues(redis.url, { telemetry }, { telemetry });
    side.engine.script = (run) => {
      run.options.onDelta?.(delta('secret'));
      run.finish();
    };
    side.work();
    const queue = await side.open();
    const request = provider.getTracer('test').startSpan('request');
    await context.with(trace.setSpan(context.active(), request), () =>
      queue.submit('a', completion('secret'), { onDelta: () => undefined }),
    );
    request.end();
    await side.close();
    const spans = exporter.getFinishedSpans().filter(({ attributes }) => attributes['bullmq.job.id'] === 'a');
    const names = spans.map(({ name }) => name.split(' ')[0]);
    expect(names).toEqual(expect.arrayContaining(['add', 'process']));
    const traces = new Set(spans.map((span) => span.spanContext().traceId));
    expect([...traces]).toEqual([request.spanContext().traceId]);
    const told = JSON.stringify(exporter.getFinishedSpans().map((span) => [span.attributes, span.events]));
    expect(told).toContain('job completed');
    // `good` is the answer.
    expect(told).not.toMatch(/secret|good/);
  });

  it('are off by default, and a missing package is named', async () => {
    expect(await telemetryOf({ tracing: 'off' })).toBeUndefined();
    vi.doMock('bullmq-otel', () => {
      throw new Error('Cannot find package');
    });
    await expect(telemetryOf({ tracing: 'on' })).rejects.toThrow(/"--tracing".*npm install bullmq-otel/);
  });
});
