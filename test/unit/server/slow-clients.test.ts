// Clients that send slowly, not at all, or too many at a time. The limits are real, so this takes their time.
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/server/limits.js';
import { eventually } from '../../support/eventually.js';
import { TestServer } from './test-server.js';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

describe.concurrent('a connection', () => {
  /** Node checks once a second. */
  const limit = LIMITS.headersTimeoutMs + 2_500;

  it('that never sends its headers whole is answered 408', async () => {
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

  it('whose body goes on after its refusal is ended', async () => {
    const started = performance.now();
    const head = 'POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n';
    expect(await server.raw(head, 20_000)).toMatch(/^HTTP\/1\.1 404 /);
    expect(performance.now() - started).toBeLessThan(LIMITS.unreadBodyMs + 1_500);
  });
});

it('holds the limit of connections, and serves again when some end', async () => {
  let closed = 0;
  let settled = 0;
  const sockets: Socket[] = [];
  while (sockets.length < LIMITS.connections + 50) {
    const socket = connect({ host: '127.0.0.1', port: server.running.port })
      .on('error', () => undefined)
      .once('connect', () => {
        settled += 1;
      })
      .on('close', () => {
        closed += 1;
      })
      .resume();
    sockets.push(socket);
    // More at once than the listen backlog holds would wait for the kernel's retries.
    if (sockets.length % 100 === 0) await eventually(() => settled + closed >= sockets.length);
  }
  await eventually(() => closed >= 50);
  expect(closed).toBeLessThan(100);
  await expect(server.ask('/health/live')).rejects.toThrow();
  for (const socket of sockets) socket.destroy();
  await eventually(() => closed === sockets.length);
  let status = 0;
  for (let tries = 0; tries < 50 && status !== 200; tries += 1) {
    status = await server.ask('/health/live').then(
      (answer) => answer.status,
      () => 0,
    );
  }
  expect(status).toBe(200);
  expect((await server.ask('/metrics')).text).toMatch(/too_many_connections"\} [5-9]\d/);
});
