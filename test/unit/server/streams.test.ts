// Streams, clients that go away, and draining.
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CompletionDelta } from '../../../src/protocol/engine-messages.js';
import { LIMITS } from '../../../src/server/limits.js';
import { eventually } from '../../support/eventually.js';
import { TestServer } from './test-server.js';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
  server.engine.script = undefined;
});
afterEach(() => server.close());

const piece = (text: string, finishReason: 'stop' | null = null): CompletionDelta => ({
  index: 0,
  text,
  tokenIds: [7],
  logprobs: null,
  finishReason,
});

async function firstRun() {
  await eventually(() => server.engine.runs.length > 0);
  return server.engine.runs[0]!;
}

describe('a stream', () => {
  const events = (text: string) =>
    text
      .split('\n\n')
      .filter(Boolean)
      .map((event) => event.slice('data: '.length));

  it('has comments while it is silent, and no deadline once it has begun', async () => {
    await server.close();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      server = await TestServer.start({ deadline: '300ms' });
      server.engine.script = undefined;
      const answer = server.post('/v1/completions', { prompt: 'a', stream: true });
      const run = await firstRun();
      vi.advanceTimersByTime(LIMITS.streamBeatMs);
      run.options.onDelta!(piece('a fine'));
      await delay(400);
      run.options.onDelta!(piece(' film', 'stop'));
      run.finish();
      const [comment, ...rest] = (await answer).text.split('\n\n').filter(Boolean);
      expect(comment).toBe(':');
      expect(rest.map((event) => /"text":"([^"]*)"/.exec(event)?.[1])).toEqual([
        'a fine',
        ' film',
        undefined,
      ]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("comes in OpenAI's chunks and ends with [DONE]", async () => {
    const answer = server.post('/v1/completions', {
      prompt: 'a',
      stream: true,
      stream_options: { include_usage: true },
      include: ['experts'],
    });
    const run = await firstRun();
    run.options.onDelta!(piece('a fine'));
    run.options.onDelta!(piece(' film', 'stop'));
    run.finish();
    const { status, headers, text } = await answer;
    expect(status).toBe(200);
    expect(headers['content-type']).toMatch(/^text\/event-stream/);
    expect(headers['x-request-id']).toBeTruthy();
    const found = events(text);
    expect(found.at(-1)).toBe('[DONE]');
    const pieces = found.slice(0, -1).map((event) => JSON.parse(event));
    expect(pieces.map(({ choices }) => choices[0]?.text)).toEqual(['a fine', ' film', undefined]);
    expect(pieces.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, 'stop', undefined]);
    expect(pieces.slice(0, 2).map(({ usage }) => usage)).toEqual([null, null]);
    expect(pieces[2]).toMatchObject({ choices: [], usage: { prompt_tokens: 9 }, experts: { needed: 5 } });
    expect(new Set(pieces.map(({ id }) => id)).size).toBe(1);
  });

  it('answers an error with its own status before anything was sent', async () => {
    const answer = server.post('/v1/completions', { prompt: 'a', stream: true });
    (await firstRun()).fail('cannot_run');
    const { status, json } = await answer;
    expect([status, json.error.code]).toEqual([422, 'cannot_run']);
  });

  it('ends with the error when a delta cannot be written, and disturbs no other stream', async () => {
    const answer = server.post('/v1/completions', { prompt: 'a', stream: true, logprobs: 0 });
    const run = await firstRun();
    const logprobs = [{ id: 7, token: 'a', offset: 0, logprob: Number.NaN, top: [] }];
    run.options.onDelta!(piece('a'));
    // Messages of the engine arrive outside of any request, so an exception here would end the process.
    run.options.onDelta!({ ...piece('b'), logprobs });
    run.options.onDelta!(piece('c'));
    expect(run.options.signal.aborted).toBe(true);
    const found = events((await answer).text).map((event) => JSON.parse(event));
    expect(found).toHaveLength(2);
    expect(found[1].error.code).toBe('nonfinite_output');
  });

  it('answers with the status of the error when the first delta cannot be written', async () => {
    const answer = server.post('/v1/completions', { prompt: 'a', stream: true, logprobs: 0 });
    const logprobs = [{ id: 7, token: 'a', offset: 0, logprob: Number.NaN, top: [] }];
    (await firstRun()).options.onDelta!({ ...piece('a'), logprobs });
    const { status, json } = await answer;
    expect([status, json.error.code]).toEqual([500, 'nonfinite_output']);
  });

  it('ends with the error when the engine crashes in the middle', async () => {
    const answer = server.post('/v1/completions', { prompt: 'a', stream: true });
    (await firstRun()).options.onDelta!(piece('a'));
    server.engine.crash();
    const found = events((await answer).text);
    expect(JSON.parse(found.at(-1)!).error.code).toBe('engine_crashed');
    expect(found).not.toContain('[DONE]');
  });

  it('is closed when its reader falls too far behind, and its job is cancelled', async () => {
    const body = JSON.stringify({ prompt: 'a', stream: true });
    const socket = connect({ host: '127.0.0.1', port: server.running.port });
    socket.on('error', () => undefined).pause();
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const run = await firstRun();
    let sent = 0;
    // Kernel buffers hold some megabytes before the server has to buffer anything.
    while (server.engine.runs.length > 0 && sent < 64 << 20) {
      run.options.onDelta!(piece('x'.repeat(65_536)));
      sent += 65_536;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(run.options.signal.aborted).toBe(true);
    expect(sent).toBeLessThan(64 << 20);
    expect((await server.ask('/metrics')).text).toMatch(/sida_http_slow_readers_total 1/);
    socket.destroy();
  });
});

describe('a client that goes away', () => {
  const body = JSON.stringify({ prompt: 'a', stream: true });
  const options = () => ({
    port: server.running.port,
    path: '/v1/completions',
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': body.length },
  });
  const statusIs499 = () => server.log.some(({ status }) => status === 499);

  it('during its upload causes no job', async () => {
    const { headers, ...rest } = options();
    const request = httpRequest({ ...rest, headers: { ...headers, expect: '100-continue' } });
    // The server sends 100 Continue when it starts to read the body.
    const reading = new Promise((resolve) => request.on('error', () => undefined).once('continue', resolve));
    request.flushHeaders();
    await reading;
    request.write(body.slice(0, 5));
    request.destroy();
    await eventually(statusIs499);
    expect(server.queue.stats.accepted).toBe(0);
  });

  it('while its job waits causes the job to be removed', async () => {
    server.engine.enter('restarting');
    const request = httpRequest(options()).on('error', () => undefined);
    request.end(body);
    await eventually(() => server.queue.stats.waiting === 1);
    request.destroy();
    await eventually(() => server.queue.stats.waiting === 0);
    expect(server.engine.started).toEqual([]);
    await eventually(statusIs499);
  });

  it('while its job runs causes the job to be cancelled', async () => {
    const request = httpRequest(options()).on('error', () => undefined);
    request.end(body);
    const run = await firstRun();
    request.destroy();
    await eventually(() => run.options.signal.aborted);
    await eventually(() => server.queue.stats.active === 0);
  });

  it('after the first delta causes the job to be cancelled', async () => {
    const request = httpRequest(options()).on('error', () => undefined);
    request.on('response', (response) =>
      response.once('data', () => response.destroy()).on('error', () => undefined),
    );
    request.end(body);
    const run = await firstRun();
    run.options.onDelta!(piece('a'));
    await eventually(() => run.options.signal.aborted);
  });
});

describe('the queue', () => {
  it('answers 429 with Retry-After when it is full', async () => {
    await server.close();
    server = await TestServer.start({ queueBound: '1' });
    server.engine.script = undefined;
    const taken = [1, 2, 3].map(() => server.post('/v1/tokenize', { input: 'a' }));
    await eventually(() => server.queue.stats.waiting === 1);
    const { status, headers, json } = await server.post('/v1/tokenize', { input: 'a' });
    expect([status, json.error.type]).toEqual([429, 'overloaded_error']);
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(json.error.details).toEqual({ limit: 1 });
    server.engine.script = (run) => run.finish();
    for (const run of server.engine.runs) run.finish();
    expect((await Promise.all(taken)).map((answer) => answer.status)).toEqual([200, 200, 200]);
  });

  it('answers 504 at the deadline', async () => {
    await server.close();
    server = await TestServer.start({ deadline: '30ms' });
    server.engine.script = undefined;
    const { status, json } = await server.post('/v1/tokenize', { input: 'a' });
    expect([status, json.error.code]).toEqual([504, 'deadline_exceeded']);
  });

  it('keeps requests waiting while the engine restarts', async () => {
    server.engine.enter('restarting');
    const answer = server.post('/v1/tokenize', { input: 'a' });
    await eventually(() => server.queue.stats.waiting === 1);
    server.engine.script = (run) => run.finish();
    server.engine.enter('ready');
    expect((await answer).status).toBe(200);
  });
});

describe('draining', () => {
  it('finishes accepted requests and refuses new ones', async () => {
    const running = server.post('/v1/tokenize', { input: 'a' });
    const run = await firstRun();
    const live = connect({ host: '127.0.0.1', port: server.running.port });
    await new Promise((resolve) => live.once('connect', resolve));
    // The server must have accepted the connection before it stops listening.
    await server.ask('/health/live');
    const drained = server.running.drain(5_000);
    while ((await server.ask('/health/ready')).status === 200);
    let refusal = '';
    live.on('data', (data) => {
      refusal += data.toString();
    });
    const ended = new Promise((resolve) => live.once('close', resolve));
    live.write('GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n');
    await ended;
    expect(refusal).toMatch(/^HTTP\/1\.1 503 /);
    expect(refusal).toMatch(/connection: close/i);
    expect(refusal).toMatch(/retry-after: \d/i);
    expect((await server.ask('/health/ready')).json.phase).toBe('draining');
    run.finish();
    expect((await running).status).toBe(200);
    expect(await drained).toBe(true);
    await expect(server.ask('/health/live')).rejects.toThrow(/ECONNREFUSED/);
  });

  it('ends at its time limit', async () => {
    const running = server.post('/v1/tokenize', { input: 'a' });
    await firstRun();
    expect(await server.running.drain(20)).toBe(false);
    await server.queue.drain(0);
    expect((await running).status).toBe(503);
    expect(await server.running.drain(1_000)).toBe(true);
  });
});
