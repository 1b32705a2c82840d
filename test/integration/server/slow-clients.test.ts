// Clients that send slowly or not at all. The limits are real, so the tests are slow.
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EventStream, SERVER_SENT } from '../../../src/server/event-stream.js';
import { LIMITS } from '../../../src/server/limits.js';
import { TestServer } from '../../unit/server/test-server.js';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
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
    expect(performance.now() - started).toBeLessThan(5_000 + 2_500);
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
