import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ArrivingBodies } from '../../../src/server/arriving-bodies.js';
import { LIMITS } from '../../../src/server/limits.js';

let server: Server;
let client: Socket;
let bodies: ArrivingBodies;
let mayWait: boolean;
beforeEach(() => {
  mayWait = false;
});
afterEach(() => {
  client.destroy();
  server.close();
});

/** What a server has handled of a client that sends `begin`: the milliseconds until then, and the body's bytes. */
async function handled(begin: string) {
  const found: { ms: number; bytes: number }[] = [];
  let arrived = 0;
  const handle: RequestListener = (req, res) => {
    const one = { ms: performance.now() - arrived, bytes: 0 };
    found.push(one);
    req
      .on('data', (chunk: Buffer) => {
        one.bytes += chunk.length;
      })
      .on('error', () => undefined)
      .on('end', () => res.end('ok'));
  };
  bodies = new ArrivingBodies(handle, () => mayWait);
  server = createServer((req, res) => {
    arrived = performance.now();
    bodies.add(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => undefined).resume();
  client.write(begin);
  return found;
}

const post = (bytes: number, body: string) =>
  `POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${bytes}\r\n\r\n${body}`;

it('are handled at once when they come with their headers', async () => {
  const found = await handled(post(3, 'abc'));
  await expect.poll(() => found).toMatchObject([{ bytes: 3 }]);
  expect(found[0]!.ms).toBeLessThan(LIMITS.connectionGraceMs / 2);
});

it('are handled when the last byte is there, or the time is over', async () => {
  const found = await handled(post(6, 'abc'));
  await delay(LIMITS.connectionGraceMs / 3);
  expect(found).toEqual([]);
  client.write('def');
  await expect.poll(() => found).toMatchObject([{ bytes: 6 }]);
  client.write(post(6, 'abc'));
  await expect.poll(() => found.length, { timeout: 2 * LIMITS.connectionGraceMs }).toBe(2);
  expect(found[1]!.ms).toBeGreaterThan(LIMITS.connectionGraceMs * 0.9);
});

it('wait on after the time while they may', async () => {
  mayWait = true;
  const found = await handled(post(6, 'abc'));
  await delay(LIMITS.connectionGraceMs * 1.2);
  expect(found).toEqual([]);
  mayWait = false;
  await expect.poll(() => found.length).toBe(1);
});

it('are handled when they fill their buffer, which nobody would empty', async () => {
  const bytes = 1_000_000;
  const found = await handled(post(bytes, 'a'.repeat(bytes)));
  await expect.poll(() => found).toMatchObject([{ bytes }]);
  expect(found[0]!.ms).toBeLessThan(LIMITS.connectionGraceMs / 2);
});

it('are forgotten when the client goes', async () => {
  const found = await handled(post(6, 'abc'));
  await delay(100);
  client.destroy();
  await delay(LIMITS.connectionGraceMs * 1.2);
  expect(found).toEqual([]);
});

it('are handled at once when the server is about to refuse what comes later', async () => {
  const found = await handled(post(6, 'abc'));
  await delay(100);
  expect(found).toEqual([]);
  bodies.handOver();
  expect(found).toHaveLength(1);
  client.write('def');
  await expect.poll(() => found).toMatchObject([{ bytes: 6 }]);
});
