// Large answers: they are written in pieces, and unread ones are bounded.
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { serialize } from 'node:v8';
import express, { type Response } from 'express';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AnswerWriter } from '../../../src/server/answer-writer.js';
import { UnreadBytes } from '../../../src/server/unread-bytes.js';
import { embed } from '../../../src/tasks/embed/index.js';
import { ofLengthOne, textOf } from '../../../src/tasks/embed/job.js';
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
    if (answer.kind === 'embed') answer.embeddings = EMBEDDINGS.map(textOf);
    run.finish(answer);
  };
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
    expect(json.data.map(({ embedding }: { embedding: number[] }) => embedding)).toEqual(
      EMBEDDINGS.map((values) => ofLengthOne(textOf(values))),
    );
    stringify.mockClear();
    const path = String((await server.post('/v1/jobs', { type: 'embedding', ...ASKED })).headers.location);
    await eventually(async () => (await server.ask(path)).json.status === 'completed');
    const events = await server.ask(`${path}/events`);
    expect(events.text).toBe(`event: status\ndata: ${(await server.ask(path)).text}\n\n`);
    expect(largest(stringify)).toBeLessThan(256 * 1024);
  });

  it('is made in a turn of the event loop of its own', async () => {
    let turn = 0;
    let next = setImmediate(function count() {
      turn += 1;
      next = setImmediate(count);
    });
    const madeIn: number[] = [];
    const writer = new AnswerWriter(new UnreadBytes(1 << 20, () => undefined));
    const answer = () => {
      madeIn.push(turn);
      return {};
    };
    const asked: Response[] = [];
    const app = express().get('/', (_req, res) => {
      if (asked.push(res) === 4) for (const each of asked) void writer.send(each, answer);
    });
    const http = app.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const { port } = http.address() as AddressInfo;
    await Promise.all([1, 2, 3, 4].map(() => fetch(`http://127.0.0.1:${port}`)));
    clearImmediate(next);
    expect(new Set(madeIn).size).toBe(4);
    http.close();
  });

  it('of embeddings comes as few bytes, also in base64', () => {
    const job = { kind: 'embed', inputs: ASKED.input } as Parameters<typeof embed.form>[0];
    const results = embed.engine.runs === 'model' && embed.engine.results(job, {} as never, []);
    if (!results) return expect.unreachable();
    for (const [input, values] of EMBEDDINGS.entries()) results.embedding!(input, values);
    const { embeddings } = results.finish();
    expect(serialize(embeddings).length).toBeLessThan(1.5 * 4 * EMBEDDINGS.flat().length);
    const about = { model: '', id: '', createdMs: 0, form: { base64: true, experts: false } };
    const whole = embed
      .answers(about)
      .whole({ embeddings } as Parameters<ReturnType<typeof embed.answers>['whole']>[0]);
    expect(whole).toMatchObject({
      data: embeddings.map((text) => ({ embedding: textOf(ofLengthOne(text)) })),
    });
  });

  it('that nobody reads loses its connection beyond the bound', async () => {
    const bytes = 8 << 20;
    let closed = 0;
    const unread = new UnreadBytes(2.5 * bytes, () => {
      closed += 1;
    });
    const writer = new AnswerWriter(unread);
    const app = express().get('/', (_req, res) => {
      void writer.send(res, () => ({ text: 'x'.repeat(bytes) }));
    });
    const http = app.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const { port } = http.address() as AddressInfo;
    const ask = async (path: string) => {
      const socket = askOnly(path, port);
      await eventually(() => socket.readableLength > 0, 'the begin of the answer');
      return socket;
    };
    const [first, second] = [await ask('/'), await ask('/')];
    expect(closed).toBe(0);
    const third = await ask('/');
    expect(closed).toBe(1);
    for (const socket of [first, second, third]) socket.resume();
    await eventually(() => first.closed, 'the end of the first');
    await eventually(() => [second, third].every(({ bytesRead }) => bytesRead > bytes), 'the others');
    // The kernel had taken some megabytes.
    expect(first.bytesRead).toBeLessThan(bytes);
    http.closeAllConnections();
    http.close();
  });
});
