/** A listening server with a scripted engine, and a client for HTTP and raw bytes. */
import { pino } from 'pino';
import { KeyRing } from '../../../src/access/key-ring.js';
import { resolveServeOptions, type Sources } from '../../../src/config/resolve.js';
import { MemoryQueue } from '../../../src/queue/memory/memory-queue.js';
import { recordKeptJob } from '../../../src/queue/queue-metrics.js';
import { BudgetKeeper } from '../../../src/server/budget/budget-keeper.js';
import type { ServedModel } from '../../../src/server/context.js';
import { type RunningServer, startServer } from '../../../src/server/http-server.js';
import { serverMetrics } from '../../../src/server/server-metrics.js';
import type { SharedBudget } from '../../../src/server/shared-budget.js';
import { type Answer, type Asked, ask, raw } from '../../support/http-client.js';
import { MODEL, ScriptedEngine } from '../queue/scripted-engine.js';

export type { Answer };

export class TestServer {
  /** Those of the first model. */
  readonly engine: ScriptedEngine;
  readonly queue: MemoryQueue;
  /** One for each model. */
  readonly engines: ScriptedEngine[];
  readonly queues: MemoryQueue[];
  readonly log: Record<string, unknown>[];
  /** Of the first model. */
  readonly keeper: BudgetKeeper | undefined;
  readonly running: RunningServer;

  private constructor(
    engines: ScriptedEngine[],
    queues: MemoryQueue[],
    log: Record<string, unknown>[],
    keeper: BudgetKeeper | undefined,
    running: RunningServer,
  ) {
    this.engine = engines[0]!;
    this.queue = queues[0]!;
    this.engines = engines;
    this.queues = queues;
    this.log = log;
    this.keeper = keeper;
    this.running = running;
  }

  /** `names` are those of several models. */
  static async start(
    flags: Sources['flags'] = {},
    names: (string | undefined)[] = [undefined],
    sharedBudget?: SharedBudget,
  ): Promise<TestServer> {
    const options = resolveServeOptions({ flags: { model: 'm', port: '0', ...flags }, env: {} });
    const keys = new KeyRing(options);
    const log: Record<string, unknown>[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => log.push(JSON.parse(line)) });
    const { queueBound } = options;
    const parts = names.map((name, i) => {
      const engine = new ScriptedEngine();
      if (name !== undefined) engine.model = { ...MODEL, name };
      engine.script = (run) => run.finish();
      const queue = new MemoryQueue(engine, {
        bound: queueBound,
        deadlineMs: options.deadline,
        concurrency: 2,
        keptDeadlineMs: options.jobDeadline,
        retentionMs: options.jobRetention,
        answers: options.jobResults,
        onKeptEnd: (record) => recordKeptJob(record, metrics[i], logger),
      });
      const keeper = BudgetKeeper.of(options, names.length);
      return { name, engine, queue, queueBound, options, keeper };
    });
    const metrics = serverMetrics(parts as [(typeof parts)[number]]);
    const models = parts.map((part, i) => ({ ...part, metrics: metrics[i]! })) as unknown as [ServedModel];
    return new TestServer(
      parts.map(({ engine }) => engine),
      parts.map(({ queue }) => queue),
      log,
      parts[0]!.keeper,
      await startServer({ models, options, keys, logger, metrics: metrics[0], sharedBudget }),
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
