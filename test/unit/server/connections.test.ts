// What connections may do: one request at a time, no body of crumbs, and no more of them than there is room for.
import { once } from 'node:events';
import { Agent } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { postText } from '../../support/http-client.js';
import { TestServer } from './test-server.js';

const LIVE = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n';
const TOKENIZE = postText('/v1/tokenize', { input: 'a' });

let server: TestServer;
const sockets: Socket[] = [];
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.close();
});

function open(to = server): Socket {
  const socket = connect({ host: '127.0.0.1', port: to.running.port });
  sockets.push(socket);
  return socket.on('error', () => undefined).resume();
}

/** 0 before it was counted. */
async function counter(name: string): Promise<number> {
  const { text } = await server.ask('/metrics');
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}

const errors = (reason: string) => counter(`sida_http_connection_errors_total{reason="${reason}"}`);
const lines = (msg: string) => server.log.filter((line) => line.msg === msg);

describe('a second request before the first answer', () => {
  it('closes the connection before anything runs, and one line says who asked for what', async () => {
    expect(await server.raw(TOKENIZE.repeat(1_000))).toBe('');
    expect(server.engine.started).toEqual([]);
    expect(server.queue.stats.accepted).toBe(0);
    expect(await errors('pipelined')).toBe(1);
    const asked = { reason: 'pipelined', method: 'POST', path: '/v1/tokenize' };
    expect(lines('connection closed')).toEqual([expect.objectContaining(asked)]);
    expect(String(lines('connection closed')[0]!.address)).toContain('127.0.0.1');
  });

  it('cancels what the first has begun', async () => {
    server.engine.script = undefined;
    const socket = open();
    socket.write(TOKENIZE);
    await eventually(() => server.engine.runs.length > 0);
    const [run] = server.engine.runs;
    socket.write(LIVE);
    await eventually(() => run!.options.signal.aborted);
    await eventually(() => server.queue.stats.active === 0);
    expect(server.queue.stats).toMatchObject({ accepted: 1, cancelled: 1, waiting: 0 });
    expect(await errors('pipelined')).toBe(1);
    expect(lines('request').filter(({ status }) => status === 499)).toHaveLength(1);
  });

  it('is answered when it arrives whole after that answer, as a client of a kept connection sends it', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = 0; i < 20; i += 1) {
      const answers = [server.ask('/health/live', { agent }), server.ask('/v1/models', { agent })];
      for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
    }
    const socket = open();
    let text = '';
    socket.on('data', (data) => {
      text += data.toString();
    });
    socket.write(LIVE.slice(0, -2));
    await delay(20);
    socket.write('\r\n');
    await eventually(() => text.endsWith('}'));
    socket.write(LIVE);
    await eventually(() => text.split('HTTP/1.1 200').length === 3);
    agent.destroy();
    expect(await errors('pipelined')).toBe(0);
  });
});

it('that send what is not HTTP get one answer, however much it is', async () => {
  const answer = await server.raw(`${'no HTTP at all '.repeat(4_000)}\r\n\r\n`);
  expect(answer.match(/HTTP\/1\.1 400/g)).toHaveLength(1);
  expect(await errors('invalid_request')).toBe(1);
});

it('that send what is not HTTP behind a request get no answer, which would be taken for that of the request', async () => {
  expect(await server.raw(`${LIVE}no HTTP at all\r\n\r\n`)).toBe('');
});

describe('a body in chunks', () => {
  const head =
    'POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

  it('of a byte each is refused before it has arrived', async () => {
    const answer = await server.raw(head + chunk(' ').repeat(2_000));
    // A reset may overtake the answer.
    if (answer !== '') {
      expect(answer).toMatch(/^HTTP\/1\.1 400 .*x-request-id: req_.*64 bytes or more on average/s);
    }
    expect(await errors('small_chunks')).toBe(1);
    expect(server.queue.stats.accepted).toBe(0);
  });

  it('is read where they are few, or large', async () => {
    const body = JSON.stringify({ task: 'sst2', input: 'a fine film' });
    const few = [...body].map(chunk).join('') + chunk('');
    const large = chunk(`${body.slice(0, -1)}${' '.repeat(300_000)}`) + chunk('}') + chunk('');
    for (const chunks of [few, large]) {
      const socket = open();
      const answer = once(socket, 'data');
      socket.write(head + chunks);
      expect(String((await answer)[0])).toMatch(/^HTTP\/1\.1 200 /);
    }
  });
});

describe('connections beyond the limit of an address', () => {
  it('close the one that has waited longest for a request, never one that is being answered', async () => {
    const limited = await TestServer.start({ connectionsPerAddress: '4' });
    limited.engine.script = undefined;
    const working = open(limited);
    working.write(TOKENIZE);
    await eventually(() => limited.engine.runs.length === 1);
    const next = async () => {
      const socket = open(limited);
      await once(socket, 'connect');
      return socket;
    };
    const slow = await next();
    slow.write(TOKENIZE.slice(0, -1));
    const idle = await next();
    for (let i = 0; i < 5; i += 1) expect((await limited.ask('/health/live')).status).toBe(200);
    expect([working.closed, slow.closed, idle.closed]).toEqual([false, false, false]);
    await next();
    await next();
    await eventually(() => slow.closed);
    expect(idle.closed).toBe(false);
    await next();
    await eventually(() => idle.closed);
    expect(working.closed).toBe(false);
    const { text } = await limited.ask('/metrics');
    expect(text).toMatch(/sida_http_connection_errors_total\{reason="too_many_of_address"\} 3/);
    working.destroy();
    await limited.close();
  });

  it('are refused when all the others are being answered', async () => {
    const limited = await TestServer.start({ connectionsPerAddress: '2' });
    limited.engine.script = undefined;
    for (const socket of [open(limited), open(limited)]) socket.write(TOKENIZE);
    await eventually(() => limited.engine.runs.length === 2);
    await expect(limited.ask('/health/live')).rejects.toThrow();
    expect(limited.engine.runs.every(({ options }) => !options.signal.aborted)).toBe(true);
    for (const socket of sockets.splice(0)) socket.destroy();
    await limited.close();
  });
});
