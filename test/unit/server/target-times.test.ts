// Which requests count for a latency target.
import { afterEach, expect, it } from 'vitest';
import { TestServer } from './test-server.js';

let server: TestServer;
afterEach(() => server.close());

const ratio = () => server.keeper!.window.take(performance.now() + 3_000);

it('counts answers of the model, not of the tokenizer', async () => {
  server = await TestServer.start({ latencyP95: '1h' });
  for (let i = 0; i < 8; i += 1) await server.post('/v1/tokenize', { text: 'a' });
  expect(ratio()).toBeUndefined();
  for (let i = 0; i < 8; i += 1)
    expect((await server.post('/v1/completions', { prompt: 'a' })).status).toBe(200);
  expect(ratio()).toBeGreaterThan(0);
});

it('counts requests whose deadline passed, because slow answers must not hide', async () => {
  server = await TestServer.start({ latencyP95: '10ms', deadline: '100ms' });
  server.engine.script = undefined;
  const late = await Promise.all(
    Array.from({ length: 5 }, () => server.post('/v1/completions', { prompt: 'a' })),
  );
  expect(late.map(({ status }) => status)).not.toContain(200);
  expect(ratio()).toBeGreaterThan(5);
});
