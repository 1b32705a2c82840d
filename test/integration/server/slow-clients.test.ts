// Clients that send slowly or not at all, and too many clients at a time. The limits are real, so the tests are slow.
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EventStream, SERVER_SENT } from '../../../src/server/event-stream.js';
import { LIMITS } from '../../../src/server/limits.js';
import { eventually } from '../../support/eventually.js';
import { TestServer } from '../../unit/server/test-server.js';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ queueBound: '4000' });
  server.engine.script = undefined;
});
afterAll(() => server.close());

describe.concurrent('a connection', () => {
  /** Node checks for overdue connections once a second. */
  const limit = LIMITS.headersTimeoutMs + 2_500;

  it('that never completes its headers is answered with 408', async () => {
    const started = performance.now();
    const answer = await server.raw('GET /health/live HTTP/1.1\r\nhost: localhost\r\n', 20_000);
    expect(performance.now() - started).toBeLessThan(limit);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer).toMatch(/x-request-id: req_/);
    expect(answer).toContain('"request_timeout"');
  });

  it('that sends nothing is closed', async () => {
    const started = performance.now();
    await server.raw('', 20_000);
    expect(performance.now() - started).toBeLessThan(limit);
  });

  it('that stays idle after an answer is closed', async () => {
    const started = performance.now();
    const answer = await server.raw('GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n', 20_000);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(performance.now() - started).toBeLessThan(LIMITS.keepAliveTimeoutMs + 2_500);
  });

  it('whose body continues after the refusal is closed', async () => {
    const started = performance.now();
    const head = 'POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n';
    expect(await server.raw(head, 20_000)).toMatch(/^HTTP\/1\.1 404 /);
    expect(performance.now() - started).toBeLessThan(LIMITS.unreadBodyMs + 1_500);
  });
});

describe.concurrent('a stream that has ended', () => {
  const STALL_MS = 2_000;

  /**
   * Streams until the server has to buffer, then ends. Resolves with the calls of `onOverflow` and the bytes read.
   */
  async function endTo(reader: (socket: Socket) => void): Promise<{ slow: number; bytes: number }> {
    let slow = 0;
    const http = createServer(async (_, res) => {
      const onOverflow = () => {
        slow += 1;
      };
      const events = new EventStream(res, SERVER_SENT, onOverflow, STALL_MS);
      // The kernel's buffers hold some megabytes and grow with each turn before the server has to buffer anything.
      while (res.writableLength < LIMITS.streamBufferBytes / 2) {
        events.send('x'.repeat(16_384));
        await new Promise((resolve) => setImmediate(resolve));
      }
      events.end();
    });
    const closed = new Promise<void>((resolve) => {
      http.once('request', (_, res) => res.once('close', resolve));
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const socket = connect({ host: '127.0.0.1', port: (http.address() as AddressInfo).port });
    socket
      .on('error', () => undefined)
      .write('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
    reader(socket);
    await closed;
    const bytes = socket.bytesRead;
    socket.destroy();
    http.close();
    return { slow, bytes };
  }

  it('is closed when its reader stops reading', async () => {
    const started = performance.now();
    expect((await endTo((socket) => socket.pause())).slow).toBe(1);
    expect(performance.now() - started).toBeLessThan(2 * STALL_MS + 5_000);
  });

  it('stays open for a slow reader', async () => {
    // The reader takes a chunk now and then, in total for longer than it may stop reading.
    const { slow, bytes } = await endTo((socket) => {
      socket.pause();
      const timer = setInterval(() => socket.resume().once('data', () => socket.pause()), 100);
      socket.once('close', () => clearInterval(timer));
    });
    expect(slow).toBe(0);
    expect(bytes).toBeGreaterThan(LIMITS.streamBufferBytes / 2);
  }, 30_000);
});

/** Opens connections that send `first` and stay open. Resolves when each was accepted or refused. */
async function stay(
  count: number,
  first: string,
  heard: (taken: number) => boolean = () => true,
): Promise<{ sockets: Socket[]; closed: () => number }> {
  let [closed, settled] = [0, 0];
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const socket = connect({ host: '127.0.0.1', port: server.running.port })
      .on('error', () => undefined)
      .once('connect', () => {
        settled += 1;
        if (first !== '') socket.write(first);
      })
      .on('close', () => {
        closed += 1;
      })
      .resume();
    sockets.push(socket);
    // More connections at once than the listen backlog holds would wait for the kernel's retries.
    if (sockets.length % 100 === 0) await eventually(() => settled + closed >= sockets.length);
    // At the limit, the server would close a connection whose request it has not read yet.
    if (sockets.length > LIMITS.connections - 250)
      await eventually(() => heard(Math.min(sockets.length, LIMITS.connections)));
  }
  return { sockets, closed: () => closed };
}

async function leave({ sockets, closed }: Awaited<ReturnType<typeof stay>>): Promise<void> {
  for (const socket of sockets) socket.destroy();
  await eventually(() => closed() === sockets.length);
}

const errorsOf = async (reason: string) =>
  Number(new RegExp(`reason="${reason}"\\} (\\d+)`).exec((await server.ask('/metrics')).text)?.[1] ?? 0);

it('closes silent connections beyond the limit, the oldest first', async () => {
  const silent = await stay(LIMITS.connections + 200, '');
  await eventually(() => silent.closed() >= 200);
  expect(silent.sockets.slice(0, 200).every(({ destroyed }) => destroyed)).toBe(true);
  expect(silent.sockets.slice(-10).some(({ destroyed }) => destroyed)).toBe(false);
  expect((await server.ask('/health/live')).status).toBe(200);
  expect(await errorsOf('too_many_connections')).toBeGreaterThanOrEqual(200);
  await leave(silent);
});

it('enforces the limit of connections, and serves again when some end', async () => {
  const body = JSON.stringify({ input: 'a' });
  const held = await stay(
    LIMITS.connections + 50,
    `POST /v1/tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    (taken) => server.queue.stats.accepted >= taken,
  );
  await eventually(() => held.closed() >= 50);
  expect(held.closed()).toBe(50);
  expect(server.queue.stats.waiting + server.queue.stats.active).toBe(LIMITS.connections);
  await expect(server.ask('/health/live')).rejects.toThrow();
  await leave(held);
  let status = 0;
  for (let tries = 0; tries < 50 && status !== 200; tries += 1) {
    status = await server.ask('/health/live').then(
      (answer) => answer.status,
      () => 0,
    );
  }
  expect(status).toBe(200);
  expect(await errorsOf('too_many_connections')).toBeGreaterThanOrEqual(50);
});

it('lets one address hold no more connections than it may', async () => {
  const limited = await TestServer.start({ connectionsPerAddress: '20' });
  const hello = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n';
  const sockets: Socket[] = [];
  let open = 0;
  for (let i = 0; i < 60; i += 1) {
    const socket = connect({ host: '127.0.0.1', port: limited.running.port }).on('error', () => undefined);
    socket.resume().once('close', () => {
      open -= 1;
    });
    await new Promise((resolve) => socket.once('connect', resolve));
    open += 1;
    socket.write(hello);
    sockets.push(socket);
  }
  await eventually(() => open <= 20);
  // Its idle connections make way, so a new request is still served.
  expect((await limited.ask('/health/live')).status).toBe(200);
  for (const socket of sockets) socket.destroy();
  await limited.close();
});
