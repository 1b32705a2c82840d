/** A listening server over the scripted engine, and raw HTTP to provoke it with. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { pino } from 'pino';
import { resolveServeOptions, type Sources } from '../../../src/config/resolve.js';
import { recordKeptJob } from '../../../src/observability/kept-jobs.js';
import { createMetrics, type Metrics } from '../../../src/observability/metrics.js';
import { MemoryQueue } from '../../../src/queue/memory-queue.js';
import { type RunningServer, startServer } from '../../../src/server/http-server.js';
import { ScriptedEngine } from '../queue/scripted-engine.js';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // The tests look into answers of many shapes.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  json: any;
}

export interface Asked {
  method?: string;
  headers?: Record<string, string>;
  /** An object is sent as JSON. */
  body?: unknown;
}

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
    const metrics: Metrics = createMetrics(engine, queue);
    return new TestServer(engine, queue, log, await startServer({ engine, queue, options, logger, metrics }));
  }

  close(): Promise<void> {
    return this.running.close();
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask(path, { method: 'POST', body, headers });
  }

  ask(path: string, { method = 'GET', headers = {}, body }: Asked = {}): Promise<Answer> {
    const payload =
      body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const request = httpRequest({
        host: '127.0.0.1',
        port: this.running.port,
        path,
        method,
        agent: false,
        headers: {
          ...(payload !== undefined && {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(payload),
          }),
          ...headers,
        },
      });
      request.on('error', reject).on('response', (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
        });
        response.on('error', reject).on('end', () => {
          const isJson = response.headers['content-type']?.includes('json') && text !== '';
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            text,
            json: isJson ? JSON.parse(text) : undefined,
          });
        });
      });
      request.end(payload);
    });
  }

  /** Sends bytes as they are and gives everything that comes back until the connection ends. */
  raw(bytes: string, limitMs = 3_000): Promise<string> {
    return new Promise((resolve) => {
      let text = '';
      const socket = connect({ host: '127.0.0.1', port: this.running.port }, () => socket.write(bytes));
      const timer = setTimeout(() => socket.destroy(), limitMs);
      socket.on('data', (data) => {
        text += data.toString('latin1');
      });
      socket
        .on('error', () => undefined)
        .on('close', () => {
          clearTimeout(timer);
          resolve(text);
        });
    });
  }
}
