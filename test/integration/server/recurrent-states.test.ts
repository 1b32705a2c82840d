// Models with recurrent layers, over HTTP: requests wait for states, give way for pages, and go on from states that
// the prefix cache keeps; no answer depends on what else runs or is kept.
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
const cachedIn = ({ body }: Answer): number => body.usage.prompt_tokens_details?.cached_tokens ?? 0;

const ask = (server: ServerProcess, request: object) =>
  server.post('/v1/completions', request).then(tokensOf);

describe('qwen3-next-tiny', () => {
  const start = (budget: string, more: string[]) =>
    ServerProcess.start([
      ...['--model', oracleFixture('qwen3-next-tiny'), '--memory-budget', budget, '--max-batch-tokens', '32'],
      ...['--context', '200', ...more],
    ]);

  it('gives every request the answer that it gets alone, with few states and pages', async () => {
    const wide = await start('100%', ['--kv-tokens', '4096', '--kv-states', '16', '--prefix-cache', 'off']);
    const narrow = await start('1%', ['--kv-tokens', '272', '--kv-states', '3']);
    try {
      const alone: number[][][] = [];
      for (const request of REQUESTS) alone.push(await ask(wide, request));
      expect(await Promise.all(REQUESTS.map((request) => ask(wide, request)))).toEqual(alone);
      expect(await Promise.all(REQUESTS.map((request) => ask(narrow, request)))).toEqual(alone);
      let metric = metricsIn((await narrow.get('/metrics')).body);
      expect(metric('sida_preemptions_total')).toBeGreaterThan(0);
      // A request whose choices need all states takes those that are kept.
      expect(await ask(narrow, REQUESTS[2]!)).toEqual(alone[2]);
      metric = metricsIn((await narrow.get('/metrics')).body);
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

  it('goes on where a conversation ended, or where prompts parted, at every budget and with a single state', async () => {
    const request = (tokens: number[]) => ({
      prompt: tokens,
      max_tokens: 12,
      logit_bias: { 2: -100 },
      return_token_ids: true,
    });
    const system = prompt(80, 5);
    const first = [...system, ...prompt(30, 1)];
    const without = await start('100%', ['--kv-tokens', '4096', '--prefix-cache', 'off']);
    const servers = await Promise.all([
      start('100%', ['--kv-tokens', '4096', '--kv-states', '8']),
      start('1%', ['--kv-tokens', '400', '--kv-states', '1']),
    ]);
    try {
      const [answer] = await ask(without, request(first));
      const turns = [
        first,
        // The second turn as it was answered, and with another end of the first prompt and another answer.
        [...first, ...answer!, ...prompt(9, 2)],
        [...first.slice(0, -6), ...prompt(20, 3)],
        // A second and a third conversation that begin with the same tokens.
        [...system, ...prompt(40, 8)],
        [...system, ...prompt(40, 9)],
      ].map(request);
      const alone: number[][][] = [];
      for (const turn of turns) alone.push(await ask(without, turn));
      for (const [at, server] of servers.entries()) {
        const cached: number[] = [];
        for (const [i, turn] of turns.entries()) {
          const found = await server.post('/v1/completions', turn);
          expect(tokensOf(found)).toEqual(alone[i]);
          cached.push(cachedIn(found));
        }
        // An answer's last token was never fed. A prompt of 110 tokens keeps the state behind 96.
        const spared = [0, 110 + 12 - 1, 96, 0, 80];
        expect(cached).toEqual(at === 0 ? spared : [0, 121, 0, 0, 0]);
        const sum = cached.reduce((total, tokens) => total + tokens, 0);
        await server.until(async () => {
          const metric = metricsIn((await server.get('/metrics')).body);
          return metric('sida_prefix_cache_hit_tokens_total') === sum;
        });
      }
    } finally {
      await Promise.all([without, ...servers].map((server) => server.stop()));
    }
  }, 90_000);
});
