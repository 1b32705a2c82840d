// Large answers: they are written in pieces, their readers share them, and unread ones are bounded.
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import express from 'express';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AnswerWriter } from '../../../src/server/answer-writer.js';
import { UnreadBytes } from '../../../src/server/unread-bytes.js';
import { eventually } from '../../support/eventually.js';
import { answerTo } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

let server: TestServer;
const sockets: Socket[] = [];
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.close();
});

const EMBEDDINGS = Array.from({ length: 2_048 }, (_, i) =>
  Array.from({ length: 128 }, (_, j) => Math.fround(Math.sin(128 * i + j))),
);
const ASKED = { input: EMBEDDINGS.map((_, i) => [2 + (i % 100)]) };

function embedAll(): void {
  server.engine.script = (run) => {
    const answer = answerTo(run.request);
    if (answer.kind === 'embed') answer.embeddings = EMBEDDINGS;
    run.finish(answer);
  };
}

/** A kept job whose answer has a text of so many bytes. */
async function ended(bytes: number): Promise<string> {
  server.engine.script = (run) => {
    const answer = answerTo(run.request);
    if (answer.kind === 'complete') answer.choices[0]!.text = 'x'.repeat(bytes);
    run.finish(answer);
  };
  const { headers } = await server.post('/v1/jobs', { type: 'completion', prompt: 'a' });
  const path = String(headers.location);
  await eventually(async () => (await server.ask(path)).json.status === 'completed');
  return path;
}

/** Asks for the answer and reads none of it. */
function askOnly(path: string, port: number): Socket {
  const socket = connect({ host: '127.0.0.1', port });
  sockets.push(socket);
  socket.on('error', () => undefined);
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  return socket;
}

const largest = (stringify: { mock: { results: { value?: unknown }[] } }) =>
  Math.max(...stringify.mock.results.map(({ value }) => (typeof value === 'string' ? value.length : 0)));

describe('a large answer', () => {
  it('is written in small pieces, and arrives whole', async () => {
    embedAll();
    const stringify = vi.spyOn(JSON, 'stringify');
    const { json, headers, text } = await server.post('/v1/embeddings', ASKED);
    expect(largest(stringify)).toBeLessThan(256 * 1024);
    expect(headers['content-length']).toBe(String(text.length));
    expect(json.data.map(({ embedding }: { embedding: number[] }) => embedding)).toEqual(EMBEDDINGS);
    stringify.mockClear();
    const path = String((await server.post('/v1/jobs', { type: 'embedding', ...ASKED })).headers.location);
    await eventually(async () => (await server.ask(path)).json.status === 'completed');
    const events = await server.ask(`${path}/events`);
    expect(events.text).toBe(`event: status\ndata: ${(await server.ask(path)).text}\n\n`);
    expect(largest(stringify)).toBeLessThan(256 * 1024);
  });

  it('of an ended job is written once for those who read it at the same time', async () => {
    const path = await ended(3 << 20);
    const whole = (await server.ask(path)).text;
    const stringify = vi.spyOn(JSON, 'stringify');
    const written = () => stringify.mock.results.filter(({ value }) => value?.length > 50_000).length;
    const answers = await Promise.all(Array.from({ length: 20 }, () => server.ask(path)));
    expect(answers.every(({ text }) => text === whole)).toBe(true);
    // One takes about 50 pieces.
    expect(written()).toBeLessThan(200);
    const { status, headers, text } = await server.ask(path, { method: 'HEAD' });
    expect([status, headers['content-length'], text]).toEqual([200, String(whole.length), '']);
  });

  it('that nobody reads is held once, and loses the connections of its readers beyond the bound', async () => {
    const bytes = 8 << 20;
    let closed = 0;
    const unread = new UnreadBytes(2.5 * bytes, () => {
      closed += 1;
    });
    const writer = new AnswerWriter(unread);
    const app = express().get('/:key', (req, res) => {
      void writer.send(res, () => ({ text: 'x'.repeat(bytes) }), req.params.key);
    });
    const http = app.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const { port } = http.address() as AddressInfo;
    const ask = async (path: string) => {
      const socket = askOnly(path, port);
      await eventually(() => socket.readableLength > 0, 'the begin of the answer');
      return socket;
    };
    const first = [await ask('/first'), await ask('/first'), await ask('/first')];
    const others = [await ask('/second')];
    expect(closed).toBe(0);
    others.push(await ask('/third'));
    expect(closed).toBe(1);
    for (const socket of [...first, ...others]) socket.resume();
    await eventually(() => first.every((socket) => socket.closed), 'the end of the first');
    await eventually(() => others.every(({ bytesRead }) => bytesRead > bytes), 'the others');
    // The kernel had taken some megabytes.
    expect(first.every(({ bytesRead }) => bytesRead < bytes)).toBe(true);
    http.closeAllConnections();
    http.close();
  });
});
