import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { createConnection, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LIMITS } from '../../../src/server/limits.js';
import { TIMED } from '../../support/timed.js';
import { TestServer } from './test-server.js';

const DATA = join(import.meta.dirname, '../../data/tls');
const certificate = (name: string) => readFileSync(join(DATA, `${name}.cert.pem`));

let folder: string;
let files: { tlsCert: string; tlsKey: string };
let server: TestServer | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sida-tls-'));
  files = { tlsCert: join(folder, 'cert.pem'), tlsKey: join(folder, 'key.pem') };
  install('first');
});
afterEach(async () => {
  await server?.close();
  server = undefined;
  rmSync(folder, { recursive: true });
});

function install(name: string): void {
  copyFileSync(join(DATA, `${name}.key.pem`), files.tlsKey);
  copyFileSync(join(DATA, `${name}.cert.pem`), files.tlsCert);
}

const open = (name: string): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const at = {
      host: '127.0.0.1',
      port: server!.running.port,
      ca: certificate(name),
      servername: 'localhost',
    };
    const socket: TLSSocket = connect(at, () => resolve(socket)).once('error', reject);
  });

async function silentClients(count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let at = 0; at < count; at += 1) {
    const socket = createConnection(server!.running.port, '127.0.0.1').on('error', () => {});
    await once(socket.resume(), 'connect');
    sockets.push(socket);
  }
  return sockets;
}

it('answers over HTTPS, and logs the trace of the client', async () => {
  server = await TestServer.start(files);
  expect(server.running.url).toMatch(/^https:/);
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` };
  const status = await new Promise((resolve, reject) => {
    const options = { ca: certificate('first'), servername: 'localhost', headers };
    get(`${server!.running.url}/nowhere`, options, (res) => resolve(res.resume().statusCode)).once(
      'error',
      reject,
    );
  });
  expect(status).toBe(404);
  await expect.poll(() => server!.log.at(-1)).toMatchObject({ path: '/nowhere', traceId });
});

it('closes a connection that pipelines', async () => {
  server = await TestServer.start(files);
  const socket = await open('first');
  let text = '';
  socket.on('data', (bytes) => (text += bytes));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const request = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n';
  socket.write(request.repeat(3));
  await closed;
  expect(text).not.toContain('200 OK');
});

it('ends at once, also beside clients that never begin their handshake', TIMED, async () => {
  server = await TestServer.start(files);
  const silent = await silentClients(8);
  const begin = performance.now();
  await server.close();
  server = undefined;
  expect(performance.now() - begin).toBeLessThan(2_000);
  for (const socket of silent) socket.destroy();
});

it('closes the oldest of too many clients that never begin their handshake', async () => {
  server = await TestServer.start(files);
  const silent = await silentClients(LIMITS.connections + 5);
  await expect.poll(() => silent.filter((socket) => socket.closed).length).toBe(5);
  expect(silent.slice(0, 5).every((socket) => socket.closed)).toBe(true);
  (await open('first')).destroy();
  for (const socket of silent) socket.destroy();
}, 30_000);

it('takes a new certificate while it runs, and keeps the earlier one where the files are no certificate', async () => {
  server = await TestServer.start(files);
  (await open('first')).destroy();
  await expect(open('second')).rejects.toThrow(/self.signed/);
  install('second');
  const later = { timeout: 20_000, interval: 200 };
  await expect
    .poll(
      () =>
        open('second').then(
          (socket) => socket.destroy() && true,
          () => false,
        ),
      later,
    )
    .toBe(true);
  writeFileSync(files.tlsKey, 'no key');
  await expect.poll(() => server!.log.at(-1)?.msg, later).toBe('keeps the earlier certificate');
  (await open('second')).destroy();
}, 60_000);

it('refuses files that are no certificate with its key', async () => {
  copyFileSync(join(DATA, 'second.key.pem'), files.tlsKey);
  await expect(TestServer.start(files)).rejects.toThrow(
    /are no certificate with its key.*key values mismatch/,
  );
  rmSync(files.tlsKey);
  await expect(TestServer.start(files)).rejects.toThrow(`${files.tlsKey}: no such file or directory`);
});

it.each([['tlsCert'], ['tlsKey']])('needs the other file beside %s', async (one) => {
  await expect(TestServer.start({ [one]: 'a.pem' })).rejects.toThrow(/needs "--tls-(key|cert)", too/);
});
