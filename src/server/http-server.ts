/** The listening server. It limits connections and times, answers malformed HTTP, and drains before it ends. */
import { createServer, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type ErrorCode, SidaError } from '../errors.js';
import { Admission } from './admission/admission.js';
import { memoryLimiter, RateLimit, type Unit } from './admission/rate-limit.js';
import { AnswerWriter } from './answer-writer.js';
import { createApp } from './app.js';
import type { Keeper } from './budget/budget-keeper.js';
import { changeBudget } from './budget/change-budget.js';
import { Connections } from './connections.js';
import type { ModelContext, ServerContext, ServerDependencies } from './context.js';
import { LIMITS } from './limits.js';
import { errorAnswer } from './middleware/errors.js';
import { newRequestId } from './middleware/request-log.js';
import { RequestsInFlight } from './requests-in-flight.js';
import type { Route } from './route.js';
import { ROUTES } from './routes/index.js';
import { StreamPlaces } from './stream-places.js';
import { createTlsServer } from './tls-server.js';
import { UnreadBytes } from './unread-bytes.js';

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /**
   * Answers new requests with 503 and ends their connections. Resolves true when no earlier request and no job is
   * left, false when `drainMs` passes first. The server accepts no connection after that.
   */
  drain(drainMs: number): Promise<boolean>;
  /** Refuses all requests except probes, scrapes and reads of jobs. */
  refuse(): void;
  /** Stops listening and closes every connection. */
  close(): Promise<void>;
}

export async function startServer(
  dependencies: ServerDependencies,
  routes: readonly Route[] = ROUTES,
): Promise<RunningServer> {
  const context = createContext(dependencies);
  const { server, connections } = createHttpServer(context, routes);
  const { host, port } = context.options;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ host, port, backlog: LIMITS.backlog }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address() as AddressInfo;
  const ended = new AbortController();
  for (const model of context.models) {
    const change = async (bytes: number, by: Keeper) =>
      (await changeBudget(context, model, String(bytes), { by, key: null })).usage.budgetBytes;
    void model.keeper?.keep(model.engine, change, model.logger, ended.signal);
  }
  const closed = new Promise<void>((resolve) => server.once('close', resolve));
  return {
    url: `${context.options.tlsCert === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${address.port}`,
    port: address.port,
    async drain(drainMs) {
      await delay(LIMITS.settleMs);
      context.draining = true;
      // The server keeps listening, so that a new connection gets a refusal. One left in the backlog would be reset.
      const end = performance.now() + drainMs;
      const answered = await connections.answered(drainMs);
      // Kept jobs are drained last. No client waits for them, and requests about them are still answered.
      const left = Math.max(0, end - performance.now());
      const finished = answered && (await Promise.all(context.models.map(({ queue }) => queue.drain(left))));
      server.close();
      return finished !== false && finished.every(Boolean);
    },
    refuse() {
      context.draining = true;
    },
    async close() {
      context.draining = true;
      ended.abort();
      server.close();
      server.closeAllConnections();
      connections.endHandshakes();
      await closed;
    },
  };
}

function createContext({ models, limiters = {}, ...dependencies }: ServerDependencies): ServerContext {
  const { keys, logger, options } = dependencies;
  const limitOf = (unit: Unit, perMinute: number | undefined) =>
    perMinute === undefined ? undefined : new RateLimit(limiters[unit] ?? memoryLimiter(perMinute), unit);
  const tokenLimit = limitOf('tokens', options.rateLimit);
  const byteLimit = limitOf('bytes', options.rateLimitBytes);
  const unread = new UnreadBytes(LIMITS.unreadBytes, () =>
    dependencies.metrics.countConnectionError('unread'),
  );
  const writer = new AnswerWriter(unread);
  const startedAt = Math.floor(Date.now() / 1000);
  const [first, ...others] = models.map((model): ModelContext => {
    const { queue, queueBound, metrics } = model;
    const admission = new Admission({ keys, queue, metrics, queueBound, tokenLimit, byteLimit });
    const own = { inFlight: new RequestsInFlight(), budgetChanges: [] };
    return { ...model, ...own, keys, logger, startedAt, admission, writer, unread };
  });
  return { ...dependencies, models: [first!, ...others], streams: new StreamPlaces(), draining: false };
}

function createHttpServer(context: ServerContext, routes: readonly Route[]) {
  const { logger, metrics, options } = context;
  const http = {
    maxHeaderSize: LIMITS.headerBytes,
    headersTimeout: LIMITS.headersTimeoutMs,
    requestTimeout: LIMITS.requestTimeoutMs,
    keepAliveTimeout: options.httpKeepAlive,
    // Node checks for overdue connections at this interval, so time limits are exact only to one second.
    connectionsCheckingInterval: 1_000,
    // Node's own refusal has no request id. The origin guard refuses such requests instead.
    requireHostHeader: false,
  };
  const { tlsCert: cert, tlsKey: key } = options;
  const tls = cert !== undefined && key !== undefined;
  const server = tls ? createTlsServer(http, { cert, key }, logger) : createServer(http);
  const connections = new Connections(server, {
    perAddress: options.connectionsPerAddress,
    onClose(reason, socket, request) {
      metrics.countConnectionError(reason);
      if (request === undefined) return;
      const { method, url } = request;
      logger.info(
        { reason, address: socket.remoteAddress, method, path: url?.slice(0, 200) },
        'connection closed',
      );
      if (reason === 'small_chunks') socket.write(answerText(400, smallChunks()));
    },
  });
  const serve = connections.oneAtATime(createApp(context, routes));
  // The body reader sends 100 Continue after the headers have been checked.
  server.on('request', serve).on('checkContinue', serve);
  // A connection without any traffic for this long is closed, so that clients that stop reading hold no memory. A
  // request that waits for its answer is quiet for less.
  server.timeout = options.deadline + LIMITS.requestTimeoutMs;
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const response = connections.forget(socket);
    const { status, code, message } = connectionFault(error);
    metrics.countConnectionError(code);
    // An answer to what follows a request would be taken for the answer to that request.
    if (!socket.writable || response?.headersSent || response?.req.complete) socket.destroy();
    else end(socket, status, new SidaError({ code, message }));
  });
  const unexpected = new SidaError({
    code: 'invalid_request',
    message: 'The expect header may only be 100-continue',
  });
  server.on(
    'checkExpectation',
    connections.oneAtATime(({ socket }) => end(socket, 417, unexpected)),
  );
  return { server, connections };
}

function connectionFault({ code }: NodeJS.ErrnoException): {
  status: number;
  code: ErrorCode;
  message: string;
} {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return { status: 408, code: 'request_timeout', message: 'The request did not arrive in time' };
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    const message = `The request headers are larger than ${LIMITS.headerBytes} bytes`;
    return { status: 431, code: 'request_too_large', message };
  }
  return { status: 400, code: 'invalid_request', message: 'The request is not valid HTTP/1.1' };
}

function smallChunks(): SidaError {
  const message = `Expected the chunks of the request body to have ${LIMITS.smallChunkBytes} bytes or more on average`;
  return new SidaError({ code: 'invalid_request', message });
}

/** Answers and closes the connection. A request that cannot be parsed has no response object. */
function end(socket: Socket, status: number, error: SidaError): void {
  socket.end(answerText(status, error), () => socket.destroy());
}

function answerText(status: number, error: SidaError): string {
  const body = JSON.stringify(errorAnswer(error));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'connection: close',
    `x-request-id: ${newRequestId()}`,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}
