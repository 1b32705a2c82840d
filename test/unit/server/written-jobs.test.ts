// Large answers of ended jobs: written once, however many read them.
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { answerTo } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await server.close();
});

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

describe('a large answer', () => {
  it('is written once for all who read it, and again for nobody', async () => {
    const path = await ended(300_000);
    const first = await server.ask(path);
    expect(first.text.length).toBeGreaterThan(200_000);
    const stringify = vi.spyOn(JSON, 'stringify');
    const written = () => stringify.mock.results.filter(({ value }) => value?.length > 100_000).length;
    const answers = await Promise.all(Array.from({ length: 20 }, () => server.ask(path)));
    expect(answers.every(({ text }) => text === first.text)).toBe(true);
    const { status, headers, text } = await server.ask(path, { method: 'HEAD' });
    expect([status, headers['content-length'], text]).toEqual([
      200,
      String(Buffer.byteLength(first.text)),
      '',
    ]);
    const streams = await Promise.all(Array.from({ length: 20 }, () => server.ask(`${path}/events`)));
    for (const stream of streams) expect(stream.text).toBe(`event: status\ndata: ${first.text}\n\n`);
    expect(written()).toBe(0);
  });

  it('takes the memory of one where nobody reads it', async () => {
    const path = await ended(8 << 20);
    const { external } = process.memoryUsage();
    const open = () =>
      new Promise<IncomingMessage>((resolve, reject) => {
        const request = httpRequest({ port: server.running.port, path, agent: false });
        request
          .on('response', (response) => resolve(response.pause()))
          .on('error', reject)
          .end();
      });
    const readers = await Promise.all(Array.from({ length: 30 }, open));
    // Of thirty of them it would be 240.
    expect(process.memoryUsage().external - external).toBeLessThan(80 << 20);
    for (const reader of readers) reader.destroy();
  });

  it('that is small is not kept', async () => {
    const path = await ended(10);
    const stringify = vi.spyOn(JSON, 'stringify');
    await server.ask(path);
    expect(stringify.mock.results.some(({ value }) => String(value).includes('"completed"'))).toBe(true);
  });
});
