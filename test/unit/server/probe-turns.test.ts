import { EventEmitter } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, expect, it } from 'vitest';
import { LIMITS } from '../../../src/server/limits.js';
import { ProbeTurns } from '../../../src/server/probe-turns.js';

const MS = 20;

let full: boolean;
/** Names of requests in the order in which they were handled, with the time of each. */
let handled: { name: string; at: number }[];
let turns: ProbeTurns;
beforeEach(() => {
  full = true;
  handled = [];
  const handle = ({ url }: IncomingMessage, res: ServerResponse) => {
    handled.push({ name: url!, at: performance.now() });
    const end = performance.now() + (url === 'waits' ? 0 : MS);
    while (performance.now() < end);
    if (url !== 'unread') setTimeout(() => res.emit('close'), url === 'waits' ? 5 * MS : 0);
  };
  const hasFew = ({ url }: IncomingMessage) => !url!.startsWith('many');
  turns = new ProbeTurns(handle, { isFull: () => full, hasFew });
});

/** Of requests that are no more than a name. */
const socket = { pause: () => undefined, resume: () => undefined } as unknown as Socket;

function add(name: string, destroyed = false): void {
  turns.add(
    { url: name, destroyed, complete: true, socket } as IncomingMessage,
    new EventEmitter() as ServerResponse,
  );
}
const names = () => handled.map(({ name }) => name);

it('handles one at a time, and rests for longer than it took', async () => {
  for (const name of ['a', 'b', 'c']) add(name);
  expect(names()).toEqual(['a']);
  await expect.poll(() => handled.length).toBe(3);
  for (const [at, { at: begun }] of handled.slice(1).entries()) {
    expect(begun - handled[at]!.at).toBeGreaterThan(4 * MS);
  }
});

it('does not rest for what a request waits for while others run', async () => {
  add('waits');
  add('b');
  await expect.poll(() => handled.length, { interval: 5 }).toBe(2);
  expect(handled[1]!.at - handled[0]!.at).toBeLessThan(40 * MS);
});

it('handles the newest first where there is no room, and the oldest first where there is', async () => {
  for (const name of ['a', 'b', 'c', 'd']) add(name);
  await expect.poll(() => names()).toEqual(['a', 'd']);
  full = false;
  await expect.poll(() => names()).toEqual(['a', 'd', 'b', 'c']);
});

it('handles those of clients with few connections first', async () => {
  for (const name of ['many 1', 'few', 'many 2']) add(name);
  await expect.poll(() => names()).toEqual(['many 1', 'few', 'many 2']);
});

it('passes over those whose clients have gone', async () => {
  add('a');
  add('gone', true);
  add('b');
  full = false;
  await expect.poll(() => names()).toEqual(['a', 'b']);
});

it('begins again after it had none', async () => {
  add('a');
  await new Promise((resolve) => setTimeout(resolve, 15 * MS));
  add('b');
  expect(names()).toEqual(['a', 'b']);
});

it('does not wait long for a client that reads nothing', async () => {
  add('unread');
  add('b');
  await expect.poll(() => names(), { timeout: 2_000 }).toEqual(['unread', 'b']);
});

it('keeps no more than the connections there may be', () => {
  let looks = 0;
  const gone = {
    url: 'gone',
    socket,
    get destroyed() {
      looks += 1;
      return true;
    },
  } as IncomingMessage;
  for (let i = 0; i < 10 * LIMITS.connections; i += 1) turns.add(gone, new EventEmitter() as ServerResponse);
  looks = 0;
  turns.handOver();
  expect(looks).toBeLessThanOrEqual(2 * LIMITS.connections);
});

it('hands over all that wait', () => {
  for (const name of ['a', 'b', 'c']) add(name);
  turns.handOver();
  expect(names().sort()).toEqual(['a', 'b', 'c']);
});

/** Two connections to a server whose requests all take turns: the first has its turn, the second waits. */
async function oneWaits(
  test: (of: {
    second: Socket;
    read: () => number;
    answers: ServerResponse[];
    /** The server's end of the second. */
    waits: () => Socket;
  }) => Promise<void>,
) {
  let read = 0;
  const answers: ServerResponse[] = [];
  const room = { isFull: () => false, hasFew: () => true };
  const real = new ProbeTurns((_req, res) => answers.push(res), room, 60_000);
  const sockets: Socket[] = [];
  const server = createServer((req, res) => {
    read += 1;
    // Nobody answers a request that comes before the answer to the one before it.
    if (!sockets.includes(req.socket)) real.add(req, res);
    sockets.push(req.socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const [first, second] = [connect(port, '127.0.0.1').resume(), connect(port, '127.0.0.1').resume()];
  try {
    first.write(GET);
    await expect.poll(() => answers.length).toBe(1);
    second.write(GET);
    await expect.poll(() => read).toBe(2);
    await test({ second, read: () => read, answers, waits: () => sockets[1]! });
  } finally {
    first.destroy();
    second.destroy();
    server.close();
  }
}

const GET = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n';

it('reads nothing from a connection whose request waits', () =>
  oneWaits(async ({ second, read, answers }) => {
    second.write(GET);
    await delay(5 * MS);
    expect(read()).toBe(2);
    answers[0]!.end('ok');
    await expect.poll(() => answers.length).toBe(2);
    answers[1]!.end('ok');
    await expect.poll(() => read()).toBe(3);
  }));

it('finds out before a turn whether its client has gone, whatever that has sent', () =>
  oneWaits(async ({ second, answers, waits }) => {
    await new Promise((sent) => second.write(GET, sent));
    second.destroy();
    answers[0]!.end('ok');
    await expect.poll(() => waits().destroyed, { timeout: 2_000 }).toBe(true);
    await delay(5 * MS);
    expect(answers.length).toBe(1);
  }));
