// Models with recurrent layers, over HTTP: requests wait for states and give way for pages, and no answer depends on
// what else runs.
import { describe, expect, it } from 'vitest';
import { oracleFixture } from '../../support/oracle-fixture.js';
import { type Answer, metricsIn, ServerProcess } from '../../support/server-process.js';

const prompt = (length: number, seed: number) =>
  Array.from({ length }, (_, i) => 3 + ((i * 37 + seed * 11) % 60));
const REQUESTS = [70, 5, 64, 17, 90, 33, 48, 1].map((length, i) => ({
  prompt: prompt(length, i),
  max_tokens: 90 + i,
  logit_bias: { 2: -100 },
  return_token_ids: true,
  ...(i % 3 === 2 && { n: 2, temperature: 1, seed: i }),
}));

const tokensOf = ({ status, body }: Answer): number[][] => {
  expect(status, JSON.stringify(body)).toBe(200);
  return (body.choices as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
};

const ask = (server: ServerProcess, request: object) =>
  server.post('/v1/completions', request).then(tokensOf);

describe.each(['qwen3-next-tiny', 'qwen3-5-moe-tiny'])('%s', (name) => {
  const start = (budget: string, more: string[]) =>
    ServerProcess.start([
      ...['--model', oracleFixture(name), '--memory-budget', budget, '--max-batch-tokens', '32'],
      ...['--context', '200', ...more],
    ]);

  it('gives every request the answer that it gets alone, with few states and pages', async () => {
    const wide = await start('100%', ['--kv-tokens', '4096', '--kv-states', '16']);
    const narrow = await start('1%', ['--kv-tokens', '272', '--kv-states', '3']);
    try {
      const alone: number[][][] = [];
      for (const request of REQUESTS) alone.push(await ask(wide, request));
      expect(await Promise.all(REQUESTS.map((request) => ask(wide, request)))).toEqual(alone);
      expect(await Promise.all(REQUESTS.map((request) => ask(narrow, request)))).toEqual(alone);
      // Nothing is kept of a prompt that is asked again.
      const again = await narrow.post('/v1/completions', REQUESTS[0]!);
      expect(again.body.usage.prompt_tokens_details?.cached_tokens ?? 0).toBe(0);
      let metric = metricsIn((await narrow.get('/metrics')).body);
      expect(metric('sida_preemptions_total')).toBeGreaterThan(0);
      await narrow.until(async () => {
        metric = metricsIn((await narrow.get('/metrics')).body);
        return metric('sida_kv_window_pages_free') === 3;
      });
      expect(metric('sida_kv_window_pages')).toBe(3);
      const refused = await narrow.post('/v1/completions', { ...REQUESTS[1], max_tokens: 5, n: 3 });
      expect([refused.status, refused.body.error.code]).toEqual([422, 'cannot_run']);
      expect(refused.body.error.message).toMatch(
        /needs 4 recurrent states \(--kv-states\), the cache has 3$/,
      );
    } finally {
      await Promise.all([wide.stop(), narrow.stop()]);
    }
  }, 60_000);
});
