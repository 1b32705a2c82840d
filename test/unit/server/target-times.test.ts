// Which requests count for a latency target.
import { afterEach, expect, it, vi } from 'vitest';
import { TestServer } from './test-server.js';

let server: TestServer;
afterEach(() => server.close());

/** Starts a server whose keeper takes no window, so that `ratio` has all times. */
async function start(options: Parameters<typeof TestServer.start>[0]): Promise<void> {
  server = await TestServer.start(options);
  const { window } = server.keeper!;
  const take = window.take.bind(window);
  vi.spyOn(window, 'take').mockReturnValue(undefined);
  ratio = () => take(performance.now() + 3_000);
}

let ratio: () => number | undefined;

it('counts answers of the model, not of the tokenizer', async () => {
  await start({ latencyP95: '1h' });
  for (let i = 0; i < 8; i += 1) await server.post('/v1/tokenize', { text: 'a' });
  expect(ratio()).toBeUndefined();
  for (let i = 0; i < 8; i += 1)
    expect((await server.post('/v1/completions', { prompt: 'a' })).status).toBe(200);
  expect(ratio()).toBeGreaterThan(0);
});

it('counts requests whose deadline passed, because slow answers must not hide', async () => {
  await start({ latencyP95: '10ms', deadline: '100ms' });
  server.engine.script = undefined;
  const late = await Promise.all(
    Array.from({ length: 5 }, () => server.post('/v1/completions', { prompt: 'a' })),
  );
  expect(late.map(({ status }) => status)).not.toContain(200);
  expect(ratio()).toBeGreaterThan(5);
});
