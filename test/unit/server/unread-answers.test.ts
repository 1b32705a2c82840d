// Whole answers that clients do not read.
import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import express from 'express';
import { afterEach, expect, it } from 'vitest';
import { UnreadAnswers } from '../../../src/server/unread-answers.js';
import { eventually } from '../../support/eventually.js';

const MIB = 1024 ** 2;
/** More than the kernel takes of what is not read. */
const ANSWER = { text: 'x'.repeat(8 * MIB) };

let server: Server;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
});

async function start(mostBytes: number): Promise<{ closed(): number }> {
  let closed = 0;
  const unread = new UnreadAnswers(mostBytes, () => {
    closed += 1;
  });
  const app = express();
  app.get('/', (_req, res) => unread.send(res, ANSWER));
  server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { closed: () => closed };
}

function ask(): Socket {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
  return socket;
}

/** Bytes of the answer, and whether its connection was closed before its end. */
async function read(socket: Socket): Promise<number> {
  let bytes = 0;
  socket.on('data', (piece) => {
    bytes += piece.length;
    if (bytes > ANSWER.text.length) socket.end();
  });
  if (!socket.destroyed) await once(socket, 'close');
  return bytes;
}

it('close the oldest of them beyond the bound, and the others arrive whole', async () => {
  const { closed } = await start(20 * MIB);
  const asked: Socket[] = [];
  for (let i = 0; i < 5; i += 1) {
    asked.push(ask());
    await eventually(() => asked[i]!.readableLength > 0 || closed() > 3, 'the begin of the answer');
  }
  await eventually(() => closed() === 3, 'closed connections');
  const bytes = await Promise.all(asked.map(read));
  expect(bytes.map((each) => each > ANSWER.text.length)).toEqual([false, false, false, true, true]);
});

it('close nobody while all read', async () => {
  const { closed } = await start(20 * MIB);
  for (let i = 0; i < 8; i += 1) expect(await read(ask())).toBeGreaterThan(ANSWER.text.length);
  expect(closed()).toBe(0);
});
