// Which connections rest while many are open: those that only probe, not those of clients that work.
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { keepRoom } from '../../../src/server/connection-room.js';
import { LIMITS } from '../../../src/server/limits.js';

let server: Server;
let port: number;
const others: Socket[] = [];
/** The server's ends of the connections, by client port. */
const accepted = new Map<number, Socket>();

beforeEach(async () => {
  server = createServer();
  keepRoom(
    server,
    (req, res) => {
      res.statusCode = req.url === '/refused' ? 400 : 200;
      res.end('{}');
    },
    { perAddress: undefined, onClose: () => undefined, answerAtOnce: () => false },
  );
  server.on('connection', (socket) => accepted.set(socket.remotePort!, socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterEach(async () => {
  for (const socket of others.splice(0)) socket.destroy();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
  accepted.clear();
});

async function crowd(count: number, addressOf: (i: number) => string) {
  for (let i = 0; i < count; i += 1) {
    const socket = connect({ host: '127.0.0.1', port, localAddress: addressOf(i) });
    others.push(socket);
    await once(socket, 'connect');
  }
}

const ownAddress = (i: number) => `127.0.${1 + (i >> 7)}.${1 + (i & 127)}`;

/** Sends the requests over one kept connection. Returns after which of them it rested. */
async function restsAfter(requests: string[]): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const rests: number[] = [];
  for (const [at, each] of requests.entries()) {
    const [method, path] = each.split(' ');
    const sent = request({ host: '127.0.0.1', port, path: path!, method: method!, agent });
    sent.end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    const own = accepted.get(answer.socket.localPort!)!;
    answer.resume();
    await once(answer, 'end');
    await setTimeout(5);
    // A connection that waits for its turn is paused too, but only until its answer.
    if (own.isPaused()) rests.push(at);
  }
  agent.destroy();
  return rests;
}

it('never rests a client that works, beside hundreds of others and after a refusal', async () => {
  await crowd(LIMITS.connectionsOfAllAtEase + 50, ownAddress);
  const turns = Array.from({ length: 6 }, () => ['GET /v1/models', 'POST /v1/classify']).flat();
  expect(await restsAfter(turns)).toEqual([]);
  expect(await restsAfter(['POST /v1/classify', ...Array(6).fill('POST /refused')])).toEqual([]);
});

it('rests a connection that only probes from the third answer on', async () => {
  await crowd(LIMITS.connectionsOfAllAtEase + 50, ownAddress);
  expect((await restsAfter(Array(3).fill('GET /health/live')))[0]).toBe(2);
  expect((await restsAfter(Array(3).fill('POST /refused')))[0]).toBe(2);
});

it('rests the client whose connections are many before others', async () => {
  const most = LIMITS.connectionsAtEase + 20;
  await crowd(most, ownAddress);
  expect(await restsAfter(Array(5).fill('GET /health/live'))).toEqual([]);
  for (const socket of others.splice(0)) socket.destroy();
  await crowd(most, () => '127.0.0.1');
  expect((await restsAfter(Array(3).fill('GET /health/live')))[0]).toBe(2);
});
