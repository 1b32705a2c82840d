// The prefix cache and the admission by pages in use, over HTTP with the native engine: texts are those that each
// request gets alone, without the cache and with room for everything.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import { hasRedis } from '../../support/install-tools.js';
import { RedisServer } from '../../support/redis.js';
import { type Answer, REPO, ServerProcess } from '../../support/server-process.js';

const FIXTURE = join(REPO, 'test/fixtures/olmoe-tiny');
const VOCAB = 128;

const servers: ServerProcess[] = [];
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()));
});

/** Passes have 64 tokens, so that prompts run in chunks. */
async function start(budget: string, kvTokens: number, more: string[] = []): Promise<ServerProcess> {
  const server = await ServerProcess.start([
    ...['--model', FIXTURE, '--memory-budget', budget, '--max-batch-tokens', '64'],
    ...['--kv-tokens', String(kvTokens), ...more],
  ]);
  servers.push(server);
  return server;
}

function choices({ status, body }: Answer): number[][] {
  expect(status, JSON.stringify(body)).toBe(200);
  return (body.choices as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
}

const cachedTokens = ({ body }: Answer): number => body.usage.prompt_tokens_details.cached_tokens;

async function metric(server: ServerProcess, name: string): Promise<number> {
  const { body } = await server.get('/metrics');
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(body)![1]);
}

const tokens = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * i * 7 + i) % (VOCAB - 3)));

/** Eight conversations. Each turn sends all that was said and a few tokens more. */
async function converse(server: ServerProcess, turns: number) {
  const said: number[][] = [];
  let [cached, computed] = [0, 0];
  await Promise.all(
    Array.from({ length: 8 }, async (_, who) => {
      let prompt = tokens(who, 40);
      for (let turn = 0; turn < turns; turn += 1) {
        const sampling = who % 2 === 0 ? {} : { temperature: 1, seed: who };
        const request = { prompt, max_tokens: 20, return_token_ids: true, ...sampling };
        const answer = await server.post('/v1/completions', request);
        const [text] = choices(answer);
        said.push([who, turn, ...text!]);
        if (turn > 0) {
          cached += cachedTokens(answer);
          computed += prompt.length - cachedTokens(answer);
        }
        prompt = [...prompt, ...text!, ...tokens(who + turn, 10)];
      }
    }),
  );
  said.sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!);
  return { said, cached, computed };
}

describe('conversations', () => {
  it('have the same texts with the cache and without it, at every budget', async () => {
    const off = await converse(await start('100%', 4096, ['--prefix-cache', 'off']), 6);
    expect(off.cached).toBe(0);
    const on = await converse(await start('1%', 4096), 6);
    expect(on.said).toEqual(off.said);
    expect(on.computed / (on.computed + on.cached)).toBeLessThan(0.2);
    // With room for a part of all pages, some are computed again.
    const few = await converse(await start('50%', 768), 6);
    expect(few.said).toEqual(off.said);
  }, 240_000);
});

describe('32 streams with room for 12', () => {
  let roomy: ServerProcess;
  const alone: number[][][] = [];
  const requests = Array.from({ length: 32 }, (_, i) => ({
    prompt: tokens(i, 20 + i),
    max_tokens: 90,
    return_token_ids: true,
    ...(i % 2 === 1 && { temperature: 1.5, seed: i }),
  }));
  beforeAll(async () => {
    roomy = await start('100%', 8192, ['--prefix-cache', 'off']);
    for (const request of requests) alone.push(choices(await roomy.post('/v1/completions', request)));
    expect(await metric(roomy, 'sida_preemptions_total')).toBe(0);
  }, 120_000);

  it.each(['per-key', 'off'])(
    'all end with the tokens that each has alone, prefix cache %s',
    async (mode) => {
      const crowded = await start('1%', 12 * 128, ['--prefix-cache', mode]);
      const answers = await Promise.all(requests.map((request) => crowded.post('/v1/completions', request)));
      expect(answers.map(choices)).toEqual(alone);
      await crowded.until(async () => (await metric(crowded, 'sida_active_sequences')) === 0);
      expect(await metric(crowded, 'sida_preemptions_total')).toBeGreaterThan(0);
      const [pages, free, cached] = await Promise.all(
        ['sida_kv_pages', 'sida_kv_pages_free', 'sida_kv_pages_cached'].map((name) => metric(crowded, name)),
      );
      expect(free! + cached!).toBe(pages);
      if (mode === 'off') expect(cached).toBe(0);
    },
    120_000,
  );

  it('all tell the log-probabilities of their prompts and answers as each does alone', async () => {
    const requests = Array.from({ length: 24 }, (_, i) => ({
      prompt: tokens(i, 50 + 3 * i),
      max_tokens: 60,
      echo: true,
      logprobs: 2,
    }));
    const ask = async (server: ServerProcess, request: object) => {
      const { status, body } = await server.post('/v1/completions', request);
      expect(status, JSON.stringify(body)).toBe(200);
      return body.choices[0].logprobs;
    };
    const alone: unknown[] = [];
    for (const request of requests) alone.push(await ask(roomy, request));
    const crowded = await start('1%', 8 * 128);
    expect(await Promise.all(requests.map((request) => ask(crowded, request)))).toEqual(alone);
    expect(await metric(crowded, 'sida_preemptions_total')).toBeGreaterThan(0);
  }, 120_000);

  it('refuses a request that can never fit before any work, with the numbers', async () => {
    const server = await start('100%', 256);
    const { status, body } = await server.post('/v1/completions', { prompt: tokens(1, 40), max_tokens: 240 });
    expect([status, body.error.code]).toEqual([400, 'context_length_exceeded']);
    expect(body.error.message).toMatch(/has 40 tokens.*240.*279;.*--context.* 256 tokens/);
    const four = await server.post('/v1/completions', { prompt: tokens(1, 40), max_tokens: 100, n: 4 });
    expect([four.status, four.body.error.code]).toEqual([422, 'cannot_run']);
    expect(four.body.error.message).toContain('KV pages of 16 tokens, the cache has 16');
  });
});

describe('keys', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sida-keys-'));
  afterAll(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'keys');
  const secrets = { one: 'sk-one-0123456789abcdef0123456789', two: 'sk-two-0123456789abcdef0123456789' };

  it.each([
    ['per-key', 0, 'memory'],
    ['shared', 39, 'memory'],
    ...(hasRedis() ? [['per-key', 0, 'Redis'] as const] : []),
  ] as const)(
    'with --prefix-cache %s have %i cached tokens of another key, queue in %s',
    async (mode, others, where) => {
      const redis = where === 'Redis' ? await RedisServer.start() : undefined;
      const lines = Object.entries(secrets).map(([name, secret]) =>
        keyLine({ name, scopes: ['infer'], hash: hashKey(secret) }),
      );
      writeFileSync(file, lines.join('\n'), { mode: 0o600 });
      const server = await start('100%', 1024, [
        '--api-keys',
        file,
        '--prefix-cache',
        mode,
        ...(redis ? ['--redis', redis.url] : []),
      ]);
      const ask = async (secret: string) => {
        const response = await fetch(`${server.url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}` },
          body: JSON.stringify({ prompt: tokens(5, 40), max_tokens: 2 }),
        });
        const body = (await response.json()) as Answer['body'];
        return body.usage.prompt_tokens_details.cached_tokens;
      };
      expect(await ask(secrets.one)).toBe(0);
      expect(await ask(secrets.two)).toBe(others);
      expect(await ask(secrets.one)).toBe(39);
      await server.stop();
      await redis?.end();
    },
  );
});
