// Two API keys whose answers need more KV pages than there are, over HTTP with the native engine.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import { bearer } from '../../support/access-cases.js';
import { eventually } from '../../support/eventually.js';
import { type Answer, ask } from '../../support/http-client.js';
import { metricsIn, REPO, ServerProcess } from '../../support/server-process.js';

const FIXTURE = join(REPO, 'test/fixtures/olmoe-tiny');
const MANY = 24;
const TOKENS = 400;

describe('keys that share too few KV pages', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sida-turns-'));
  const [many, few] = [newApiKey(), newApiKey()];
  let server: ServerProcess;
  let port: number;
  beforeAll(async () => {
    const keys = join(folder, 'keys');
    const line = (name: string, key: string) =>
      keyLine({ name, scopes: ['infer', 'metrics'], hash: hashKey(key) });
    writeFileSync(keys, `${line('many', many)}\n${line('few', few)}\n`, { mode: 0o600 });
    // Room for five of the answers at their ends.
    const room = ['--memory-budget', '100%', '--max-batch-tokens', '64', '--kv-tokens', String(5 * TOKENS)];
    server = await ServerProcess.start(['--model', FIXTURE, '--api-keys', keys, ...room]);
    port = Number(new URL(server.url).port);
  }, 60_000);
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  const end: number = JSON.parse(readFileSync(join(FIXTURE, 'config.json'), 'utf8')).eos_token_id;
  const complete = (key: string, first: number, tokens: number): Promise<Answer> =>
    ask(port, '/v1/completions', {
      method: 'POST',
      headers: bearer(key),
      body: { prompt: [first, 9, 7], max_tokens: tokens, logit_bias: { [end]: -100 } },
    });

  it('answer a short request of one key before most of the long ones of the other', async () => {
    let ended = 0;
    const long = Array.from({ length: MANY }, async (_, i) => {
      const answer = await complete(many, 3 + i, TOKENS);
      ended += 1;
      return answer;
    });
    const preempted = async () => {
      const { text } = await ask(port, '/metrics', { headers: bearer(many) });
      return metricsIn(text)('sida_preemptions_total') > 0;
    };
    await eventually(preempted, 'an input that gave way');
    const { status, text } = await complete(few, 99, 4);
    expect(status, text).toBe(200);
    expect(ended).toBeLessThan(MANY / 2);
    const answers = await Promise.all(long);
    expect(answers.map(({ status: each }) => each)).toEqual(answers.map(() => 200));
    const lengths = answers.map(({ json }) => json.usage.completion_tokens);
    expect(lengths).toEqual(answers.map(() => TOKENS));
  }, 120_000);
});
