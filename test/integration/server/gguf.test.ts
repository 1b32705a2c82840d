// GGUF files over HTTP. A file answers with the bits of the checkpoint that it was written from, at every budget. The
// public package wrote the files (test/fixtures/gguf).
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { REPO, ServerProcess } from '../../support/server-process.js';

const FIXTURES = join(REPO, 'test/fixtures/gguf');
const root = mkdtempSync(join(tmpdir(), 'sida-gguf-server-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const unpacked = (name: string) => brotliDecompressSync(readFileSync(join(FIXTURES, `${name}.br`)));

function ggufFile(name: string): string {
  const path = join(root, name);
  writeFileSync(path, unpacked(name));
  return path;
}

function checkpoint(family: string): string {
  const directory = join(root, family);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'config.json'), readFileSync(join(FIXTURES, `${family}.config.json`)));
  writeFileSync(join(directory, 'model.safetensors'), unpacked(`${family}.safetensors`));
  return directory;
}

const PROMPTS = [5, 17, 29].map((length) =>
  Array.from({ length }, (_, i) => 3 + ((i * i * 7 + length) % 45)),
);
const REQUESTS = PROMPTS.flatMap((prompt, seed) => [
  { prompt, max_tokens: 20, logprobs: 5 },
  { prompt, max_tokens: 20, logprobs: 5, temperature: 1.1, top_p: 0.9, seed, n: 2 },
]);

/** Ids and log-probabilities: equal ones come from equal bits of logits. */
async function answersOf(model: string, budgets: string[], more: string[] = []): Promise<unknown[]> {
  const limits = ['--max-batch-tokens', '32', '--kv-tokens', '512'];
  const server = await ServerProcess.start(['--model', model, '--memory-budget', '50%', ...limits, ...more]);
  const answers: unknown[] = [];
  for (const budget of budgets) {
    await server.setBudget(budget);
    answers.push(await answersNow(server));
  }
  expect(await server.stop()).toBe(0);
  return answers;
}

async function answersNow(server: ServerProcess): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const request of REQUESTS) {
    const { status, body } = await server.post('/v1/completions', { ...request, return_token_ids: true });
    expect(status, JSON.stringify(body)).toBe(200);
    type Choice = { token_ids: number[]; logprobs: { token_logprobs: number[] } };
    answers.push(body.choices.map(({ token_ids, logprobs }: Choice) => [token_ids, logprobs.token_logprobs]));
  }
  return answers;
}

describe('a GGUF file', () => {
  it('answers with the bits of the checkpoint in its types, at two budgets', async () => {
    const formats = ['--experts', 'q8_0', '--dense', 'q8_0'];
    const [wanted] = await answersOf(checkpoint('olmoe'), ['100%'], formats);
    expect(await answersOf(ggufFile('olmoe.q8_0.gguf'), ['100%', 'smallest'])).toEqual([wanted, wanted]);
  }, 60_000);
});
