// The event stream of a kept job.
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CompletionDelta } from '../../../src/protocol/engine-messages.js';
import type { JobEvent } from '../../../src/queue/job-queue.js';
import { LIMITS } from '../../../src/server/limits.js';
import { eventually } from '../../support/eventually.js';
import { TestServer } from './test-server.js';

const CHAT = { type: 'chat', messages: [{ role: 'user', content: 'a' }], stream: true };
const COMPLETION = { type: 'completion', prompt: 'a', stream: true };

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
  server.engine.script = undefined;
});
afterEach(() => server.close());

const delta = (text: string): CompletionDelta => ({
  index: 0,
  text,
  tokenIds: [7],
  logprobs: null,
  finishReason: null,
});

async function accept(body: object = COMPLETION): Promise<string> {
  return String((await server.post('/v1/jobs', body)).headers.location);
}

async function run() {
  await eventually(() => server.engine.runs.length > 0);
  return server.engine.runs.at(-1)!;
}

interface Event {
  name: string;
  // The data has one of two shapes.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  data: any;
}

class Reader {
  text = '';
  ended = false;
  readonly response: IncomingMessage;

  private constructor(response: IncomingMessage) {
    this.response = response;
    response
      .setEncoding('utf8')
      .on('data', (piece: string) => {
        this.text += piece;
      })
      .on('error', () => undefined)
      .on('close', () => {
        this.ended = true;
      });
  }

  static open(path: string): Promise<Reader> {
    return new Promise((resolve, reject) => {
      httpRequest({ port: server.running.port, path: `${path}/events`, agent: false })
        .on('response', (response) => resolve(new Reader(response)))
        .on('error', reject)
        .end();
    });
  }

  get events(): Event[] {
    return this.text
      .slice(0, this.text.lastIndexOf('\n\n') + 1)
      .split('\n\n')
      .filter((event) => event.startsWith('event: '))
      .map((event) => {
        const [name, data] = event.split('\n');
        return { name: name!.slice('event: '.length), data: JSON.parse(data!.slice('data: '.length)) };
      });
  }

  /** The events in short form. */
  get told(): string[] {
    return this.events.map(({ name, data }) =>
      name === 'status' ? `${data.status} ${data.attempts}` : `piece ${data.choices[0].text}`,
    );
  }

  async until(count: number): Promise<void> {
    await eventually(() => this.told.length >= count, `event ${count}`);
  }
}

describe('the events of a job', () => {
  it('begin with its status, report deltas and statuses, and end with the answer', async () => {
    server.engine.enter('restarting');
    const path = await accept();
    const reader = await Reader.open(path);
    expect(reader.response.statusCode).toBe(200);
    expect(reader.response.headers['content-type']).toMatch(/^text\/event-stream/);
    await reader.until(1);
    server.engine.enter('ready');
    const running = await run();
    running.options.onDelta!(delta('a fine'));
    running.options.onDelta!(delta(' film'));
    running.finish();
    await eventually(() => reader.ended);
    expect(reader.told).toEqual(['queued 0', 'running 1', 'piece a fine', 'piece  film', 'completed 1']);
    const job = (await server.ask(path)).json;
    expect(reader.events.at(-1)!.data).toEqual(job);
    const { data } = reader.events[2]!;
    expect([data.object, data.id, data.created]).toEqual([
      'text_completion',
      `cmpl-${job.id}`,
      Math.floor(job.created_ms / 1000),
    ]);
  });

  it('give a late reader all that it missed, however much more that is than may be buffered', async () => {
    const path = await accept();
    const running = await run();
    const text = 'x'.repeat(LIMITS.streamBufferBytes);
    for (let index = 0; index < 8; index += 1) running.options.onDelta!({ ...delta(text), index });
    const reader = await Reader.open(path);
    await reader.until(2);
    running.options.onDelta!(delta(' end'));
    running.finish();
    await eventually(() => reader.ended);
    expect(reader.told).toEqual([
      'running 1',
      ...new Array(8).fill(`piece ${text}`),
      'piece  end',
      'completed 1',
    ]);
    expect((await server.ask('/metrics')).text).toMatch(/sida_http_slow_readers_total 0/);
  });

  it('end for late readers that take nothing once they hold too much together', async () => {
    const path = await accept();
    const running = await run();
    const text = 'x'.repeat(1 << 20);
    for (let index = 0; index < 15; index += 1) running.options.onDelta!({ ...delta(text), index });
    // Each misses two bytes for a character.
    const most = Math.floor(LIMITS.unreadBytes / (15 * 2 * text.length));
    const slow = Array.from({ length: most + 3 }, () => {
      const socket = connect({ host: '127.0.0.1', port: server.running.port });
      socket.on('error', () => undefined).pause();
      socket.write(`GET ${path}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`);
      return socket;
    });
    await eventually(async () =>
      /sida_http_slow_readers_total [1-9]/.test((await server.ask('/metrics')).text),
    );
    await eventually(() => server.queue.stats.kept.watching <= most + 1);
    expect(server.queue.stats.kept.watching).toBeGreaterThan(0);
    for (const socket of slow) socket.destroy();
    await eventually(() => server.queue.stats.kept.watching === 0);
    // Those that have gone hold nothing.
    const reader = await Reader.open(path);
    await reader.until(16);
    reader.response.destroy();
  });

  it('start the deltas again after a crash', async () => {
    const path = await accept({ ...COMPLETION, logprobs: 0 });
    const reader = await Reader.open(path);
    const logprobs = [{ id: 7, token: 'a', offset: 0, logprob: -1, top: [] }];
    (await run()).options.onDelta!({ ...delta('a'), logprobs });
    await reader.until(2);
    server.engine.crash();
    await reader.until(3);
    server.engine.enter('ready');
    const again = await run();
    again.options.onDelta!({ ...delta('a'), logprobs });
    again.finish();
    await eventually(() => reader.ended);
    expect(reader.told).toEqual(['running 1', 'piece a', 'queued 1', 'running 2', 'piece a', 'completed 2']);
    const pieces = reader.events.filter(({ name }) => name === 'piece');
    // Text offsets count from the start of the run.
    expect(pieces.map(({ data }) => data.choices[0].logprobs.text_offset)).toEqual([[0], [0]]);
  });

  it('are refused where a client has too many streams, until one is closed', async () => {
    const path = await accept();
    const readers: Reader[] = [];
    while (readers.length < LIMITS.streamsOfOwner) readers.push(await Reader.open(path));
    const { status, json, headers } = await server.ask(`${path}/events`);
    expect([status, json.error.code]).toEqual([429, 'too_many_streams']);
    expect(json.error.details).toEqual({ streams: LIMITS.streamsOfOwner, limit: LIMITS.streamsOfOwner });
    expect(headers['retry-after']).toMatch(/^\d+$/);
    readers[0]!.response.destroy();
    await eventually(() => server.queue.stats.kept.watching < LIMITS.streamsOfOwner);
    readers[0] = await Reader.open(path);
    expect(readers[0].response.statusCode).toBe(200);
    for (const reader of readers) reader.response.destroy();
    await eventually(() => server.queue.stats.kept.watching === 0);
  });

  it('of an ended job consist of its last status', async () => {
    server.engine.script = (each) => each.finish();
    const path = await accept();
    await eventually(async () => (await server.ask(path)).json.status === 'completed');
    const { status, text } = await server.ask(`${path}/events`);
    expect(status).toBe(200);
    expect(text).toMatch(/^event: status\ndata: \{.*"status":"completed".*\}\n\n$/);
  });

  it('consist of headers only for a HEAD request, which does not wait', async () => {
    const path = await accept();
    const { status, headers, text } = await server.ask(`${path}/events`, { method: 'HEAD' });
    expect([status, text]).toEqual([200, '']);
    expect(headers['content-type']).toMatch(/^text\/event-stream/);
    expect(server.queue.stats.kept.watching).toBe(0);
  });

  it('release the listener of a reader that leaves before they begin', async () => {
    const path = await accept();
    const running = await run();
    const find = server.queue.find.bind(server.queue);
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    server.queue.find = async (id, owner) => {
      await gate;
      return find(id, owner);
    };
    const socket = connect({ host: '127.0.0.1', port: server.running.port });
    socket.write(`GET ${path}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    await eventually(() => server.queue.stats.kept.watching === 1);
    socket.destroy();
    await eventually(() => server.log.some(({ status }) => status === 499));
    open();
    await eventually(() => server.queue.stats.kept.watching === 0);
    expect(running.options.signal.aborted).toBe(false);
  });

  it('end only for their reader when a delta cannot be written', async () => {
    const path = await accept({ ...COMPLETION, logprobs: 0 });
    const running = await run();
    const reader = await Reader.open(path);
    await reader.until(1);
    const logprobs = [{ id: 7, token: 'a', offset: 0, logprob: Number.NaN, top: [] }];
    running.options.onDelta!({ ...delta('a'), logprobs });
    await eventually(() => reader.ended);
    expect(reader.told).toEqual(['running 1']);
    expect(server.log.some(({ msg }) => msg === 'request failed')).toBe(true);
    running.finish();
    await eventually(async () => (await server.ask(path)).json.status === 'completed');
  });

  it('are sent once each, even when the queue reports them twice or late', async () => {
    const watch = server.queue.watch.bind(server.queue);
    server.queue.watch = (id, owner, listener) => {
      const told: JobEvent[] = [];
      return watch(id, owner, (event) => {
        told.push(event);
        listener(event);
        for (const earlier of told) if (earlier.type === 'status') listener(earlier);
      });
    };
    server.engine.enter('restarting');
    const path = await accept();
    const reader = await Reader.open(path);
    await reader.until(1);
    server.engine.enter('ready');
    (await run()).options.onDelta!(delta('a'));
    server.engine.crash();
    server.engine.enter('restarting');
    await reader.until(4);
    server.engine.enter('ready');
    (await run()).finish();
    await eventually(() => reader.ended);
    expect(reader.told).toEqual(['queued 0', 'running 1', 'piece a', 'queued 1', 'running 2', 'completed 2']);
  });

  it('include comments that keep a quiet connection open', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const reader = await Reader.open(await accept());
      await reader.until(1);
      const begun = reader.text;
      vi.advanceTimersByTime(LIMITS.streamBeatMs);
      await eventually(() => reader.text.length > begun.length);
      expect(reader.text).toBe(`${begun}:\n\n`);
      reader.response.destroy();
    } finally {
      vi.useRealTimers();
    }
  });

  it.each([
    ['a completion', COMPLETION, delta],
    [
      'a chat',
      CHAT,
      (text: string) => ({ ...delta(''), tokenIds: [], parts: [{ kind: 'content' as const, text }] }),
    ],
  ])('of %s end for a reader that falls too far behind, while others continue', async (_, body, piece) => {
    const path = await accept(body);
    const running = await run();
    const good = await Reader.open(path);
    const slow = connect({ host: '127.0.0.1', port: server.running.port });
    slow.on('error', () => undefined).pause();
    slow.write(`GET ${path}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    await eventually(() => server.queue.stats.kept.watching === 2);
    let sent = 0;
    // Kernel buffers hold some megabytes before the server has to buffer anything.
    while (server.queue.stats.kept.watching === 2 && sent < 1_000) {
      running.options.onDelta!(piece('x'.repeat(65_536)));
      sent += 1;
      // Wait until the good reader has caught up.
      await eventually(() => good.text.length > sent * 65_536);
    }
    expect(sent).toBeLessThan(1_000);
    expect((await server.ask('/metrics')).text).toMatch(/sida_http_slow_readers_total 1/);
    expect(running.options.signal.aborted).toBe(false);
    running.finish();
    await eventually(() => good.ended);
    expect(good.told.at(-1)).toBe('completed 1');
    slow.destroy();
  });
});
