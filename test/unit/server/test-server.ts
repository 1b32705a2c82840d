/** A listening server with a scripted engine, and a client for HTTP and raw bytes. */
import { pino } from 'pino';
import { KeyRing } from '../../../src/access/key-ring.js';
import { resolveServeOptions, type Sources } from '../../../src/config/resolve.js';
import type { Metrics } from '../../../src/observability/metrics.js';
import { MemoryQueue } from '../../../src/queue/memory/memory-queue.js';
import { recordKeptJob } from '../../../src/queue/queue-metrics.js';
import { type RunningServer, startServer } from '../../../src/server/http-server.js';
import { serverMetrics } from '../../../src/server/server-metrics.js';
import { type Answer, type Asked, ask, raw } from '../../support/http-client.js';
import { ScriptedEngine } from '../queue/scripted-engine.js';

export type { Answer };

export class TestServer {
  readonly engine: ScriptedEngine;
  readonly queue: MemoryQueue;
  readonly log: Record<string, unknown>[];
  readonly running: RunningServer;

  private constructor(
    engine: ScriptedEngine,
    queue: MemoryQueue,
    log: Record<string, unknown>[],
    running: RunningServer,
  ) {
    this.engine = engine;
    this.queue = queue;
    this.log = log;
    this.running = running;
  }

  static async start(flags: Sources['flags'] = {}): Promise<TestServer> {
    const options = resolveServeOptions({ flags: { model: 'm', port: '0', ...flags }, env: {} });
    const keys = new KeyRing(options);
    const engine = new ScriptedEngine();
    engine.script = (run) => run.finish();
    const queue = new MemoryQueue(engine, {
      bound: options.queueBound,
      deadlineMs: options.deadline,
      concurrency: 2,
      keptDeadlineMs: options.jobDeadline,
      retentionMs: options.jobRetention,
      answerBytes: options.jobResults,
      onKeptEnd: (record) => recordKeptJob(record, metrics, logger),
    });
    const log: Record<string, unknown>[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => log.push(JSON.parse(line)) });
    const metrics: Metrics = serverMetrics(engine, queue);
    return new TestServer(
      engine,
      queue,
      log,
      await startServer({ engine, queue, options, keys, logger, metrics }),
    );
  }

  close(): Promise<void> {
    return this.running.close();
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask(path, { method: 'POST', body, headers });
  }

  ask(path: string, asked: Asked = {}): Promise<Answer> {
    return ask(this.running.port, path, asked);
  }

  raw(bytes: string, limitMs?: number): Promise<string> {
    return raw(this.running.port, bytes, limitMs);
  }
}
