/** The listening server. It limits connections and times, answers malformed HTTP, and drains before it ends. */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type ErrorCode, SidaError } from '../errors.js';
import { Admission } from './admission/admission.js';
import { memoryLimiter, TokenLimit } from './admission/token-limit.js';
import { createApp } from './app.js';
import { keepRoom } from './connection-room.js';
import type { ModelContext, ServerContext, ServerDependencies } from './context.js';
import { healthAtOnce } from './health-at-once.js';
import { LIMITS } from './limits.js';
import { errorAnswer } from './middleware/errors.js';
import { newRequestId } from './middleware/request-id.js';
import { ROUTES } from './routes/index.js';
import type { Route } from './routes/route.js';
import { StreamPlaces } from './stream-places.js';
import { UnreadAnswers } from './unread-answers.js';
import { WrittenJobs } from './written-jobs.js';

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
  const { server, room } = createHttpServer(context, routes);
  const inFlight = new InFlight(server, context);
  const { host, port } = context.options;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ host, port, backlog: LIMITS.backlog }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address() as AddressInfo;
  const closed = new Promise<void>((resolve) => server.once('close', resolve));
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`,
    port: address.port,
    async drain(drainMs) {
      await inFlight.settled();
      room.handOver();
      context.draining = true;
      // The server keeps listening, so that a new connection gets a refusal. One left in the backlog would be reset.
      const end = performance.now() + drainMs;
      const answered = await inFlight.whenNone(drainMs);
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
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function createContext({ models, rateLimiter, ...dependencies }: ServerDependencies): ServerContext {
  const { keys, logger, options } = dependencies;
  const { rateLimit } = options;
  const limiter = rateLimit === undefined ? undefined : (rateLimiter ?? memoryLimiter(rateLimit));
  const tokenLimit = limiter && new TokenLimit(limiter);
  const streams = new StreamPlaces();
  const written = new WrittenJobs();
  const unread = new UnreadAnswers(LIMITS.unreadBytes, () =>
    dependencies.metrics.countConnectionError('unread'),
  );
  const startedAt = Math.floor(Date.now() / 1000);
  const [first, ...others] = models.map((model): ModelContext => {
    const { queue, queueBound, metrics } = model;
    const admission = new Admission({ keys, queue, metrics, queueBound, tokenLimit });
    return { ...model, keys, logger, startedAt, admission, streams, written, unread };
  });
  return { ...dependencies, models: [first!, ...others], streams, draining: false };
}

/** Counts accepted requests, each from its headers to the end of its answer. */
class InFlight {
  #count = 0;
  /** Number of connections and requests since the start. */
  #arrivals = 0;
  #whenNone: (() => void) | undefined;

  constructor(server: Server, context: ServerContext) {
    const track = (_req: IncomingMessage, res: ServerResponse) => {
      this.#arrivals += 1;
      if (context.draining) return;
      this.#count += 1;
      res.once('close', () => {
        this.#count -= 1;
        if (this.#count === 0) this.#whenNone?.();
      });
    };
    server.on('request', track).on('checkContinue', track);
    server.on('connection', () => {
      this.#arrivals += 1;
    });
  }

  /**
   * Resolves when nothing has arrived for LIMITS.quietMs, or after LIMITS.settleMs. Requests that were on their way
   * at the termination signal are accepted in this time.
   */
  async settled(): Promise<void> {
    const end = performance.now() + LIMITS.settleMs;
    let before: number;
    do {
      before = this.#arrivals;
      await delay(LIMITS.quietMs);
    } while (this.#arrivals !== before && performance.now() < end);
  }

  /** Resolves true when no accepted request is left, false when `limitMs` passes first. */
  whenNone(limitMs: number): Promise<boolean> {
    if (this.#count === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), limitMs);
      this.#whenNone = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
}

function createHttpServer(context: ServerContext, routes: readonly Route[]) {
  const { metrics, options } = context;
  const server = createServer({
    maxHeaderSize: LIMITS.headerBytes,
    headersTimeout: LIMITS.headersTimeoutMs,
    requestTimeout: LIMITS.requestTimeoutMs,
    keepAliveTimeout: LIMITS.keepAliveTimeoutMs,
    // Node checks for overdue connections at this interval, so time limits are exact only to one second.
    connectionsCheckingInterval: 1_000,
    // Node's own refusal has no request id. The origin guard refuses such requests instead.
    requireHostHeader: false,
  });
  const room = keepRoom(server, createApp(context, routes), {
    perAddress: options.connectionsPerAddress,
    answerAtOnce: healthAtOnce(context),
    onClose(event, socket) {
      metrics.countConnectionError(event);
      if (event === 'slow') socket.write(tooSlow(), 'latin1');
    },
  });
  // A connection without any traffic for this long is closed, so that clients that stop reading hold no memory. A
  // request that waits for its answer is quiet for less.
  server.timeout = options.deadline + LIMITS.requestTimeoutMs;
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const { status, code, message } = connectionFault(error);
    metrics.countConnectionError(code);
    refuse(socket, status, new SidaError({ code, message }));
  });
  server.on('checkExpectation', (_req: IncomingMessage, res: ServerResponse) => {
    const message = 'The expect header may only be 100-continue';
    const body = JSON.stringify(errorAnswer(new SidaError({ code: 'invalid_request', message })));
    res.writeHead(417, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'x-request-id': newRequestId(),
    });
    res.end(body);
  });
  return { server, room };
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

/** Answers on the socket itself, because a request that cannot be parsed has no response object. */
function refuse(socket: Socket, status: number, error: SidaError): void {
  // Another answer has begun on this connection, so the error cannot follow it.
  const begun = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage?.headersSent === true;
  if (!socket.writable || begun) {
    socket.destroy();
    return;
  }
  socket.end(answerOf(status, error)(), () => socket.destroy());
}

/** Whole answers that end their connections, each with an id of its own. A crowd gets thousands of one a second. */
function answerOf(status: number, error: SidaError): () => string {
  const body = JSON.stringify(errorAnswer(error));
  const headers = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'connection: close',
    'x-request-id: ',
  ].join('\r\n');
  return () => `${headers}${newRequestId()}\r\n\r\n${body}`;
}

const tooSlow = answerOf(
  408,
  new SidaError({
    code: 'request_timeout',
    message: `The request arrived slower than ${LIMITS.crowdedBytesPerSecond} bytes per second, and the server needed its connection`,
  }),
);
