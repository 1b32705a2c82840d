// What a server does that got no option but its models and a port.
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { freePort } from '../../support/free-port.js';
import { ownPacks, REPO, SidaProcess } from '../../support/sida-process.js';

const OLMOE = join(REPO, 'models', 'olmoe-mini');
const WORDS = join(REPO, 'models', 'switch-words');

let server: SidaProcess;
afterEach(() => server.stop());

/** Starts a server, and resolves with its URL when it is ready. */
async function serve(...args: string[]): Promise<string> {
  const port = String(await freePort());
  const { flags, remove } = ownPacks();
  server = new SidaProcess(['serve', '--port', port, ...flags, ...args], remove);
  const url = `http://127.0.0.1:${port}`;
  const ready = async () => (await fetch(`${url}/health/ready`).catch(() => undefined))?.status === 200;
  await expect.poll(ready, { timeout: 60_000 }).toBe(true);
  return url;
}

interface Refusal {
  error: { code: string; message: string };
}

/** Sends a request that is refused. */
async function post(url: string, body: object) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, json: (await response.json()) as Refusal };
}

it('has every expert in memory, the context of the model, and says so', async () => {
  const url = await serve(OLMOE);
  await expect.poll(() => server.output).toContain(' serves olmoe-mini at ');
  expect(server.output).toMatch(
    /^olmoe-mini · 55\.1 MiB of [\d.]+ [GM]iB free · all 192 experts fit · context 1,024 · f32 activations · bf16 KV cache · greedy · predictor lstm$/m,
  );
  const line = server.output.split('\n').find((each) => each.endsWith('"msg":"serving"}'))!;
  expect(JSON.parse(line)).toMatchObject({
    ...{ served: 'olmoe-mini', slots: 192, experts: 192, contextTokens: 1024, kvTokens: 3072 },
    ...{ kv: 'bf16', activations: 'f32', sampling: null, predictor: 'lstm' },
  });
  const model = await (await fetch(`${url}/v1/models/olmoe-mini`)).json();
  expect(model).toMatchObject({
    context_tokens: 1024,
    max_model_len: 1024,
    activations: 'f32',
    sampling: null,
  });
  const long = { messages: [{ role: 'user', content: 'violin '.repeat(1100) }] };
  const { status, json } = await post(`${url}/v1/chat/completions`, long);
  expect([status, json.error.code]).toEqual([400, 'context_length_exceeded']);
  expect(json.error.message).toContain("the model's maximum context length is 1024 tokens");
}, 120_000);

it('rounds activations where weights are quantized, and enforces a smaller context', async () => {
  const url = await serve(OLMOE, '--experts', 'int8', '--context', '300', '--max-batch-tokens', '128');
  const model = await (await fetch(`${url}/v1/models/olmoe-mini`)).json();
  expect(model).toMatchObject({ context_tokens: 300, max_model_len: 300, activations: 'int8' });
  const prompt = { prompt: 'violin '.repeat(250), max_tokens: 100 };
  const { status, json } = await post(`${url}/v1/completions`, prompt);
  expect([status, json.error.code]).toEqual([400, 'context_length_exceeded']);
  expect(json.error.message).toContain(
    'with --context of this server, the maximum context length is 300 tokens',
  );
}, 120_000);

it('shares what the machine gives between models', async () => {
  const url = await serve(OLMOE, WORDS);
  for (const [model, experts] of [
    ['olmoe-mini', 192],
    ['switch-words', 256],
  ])
    await expect
      .poll(() => server.output)
      .toMatch(new RegExp(`^${model} · .* · all ${experts} experts fit`, 'm'));
  const budget = await (await fetch(`${url}/admin/budget?model=switch-words`)).json();
  expect(budget).toMatchObject({ device: { budget_bytes: 52_170_752 } });
}, 120_000);
