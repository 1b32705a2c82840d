// Completions over HTTP, compared with the continuations of Hugging Face transformers.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MINI, REPO, ServerProcess } from '../../support/server-process.js';

const FIXTURE = join(REPO, 'test/fixtures/switch-tiny-capacity4');

interface Case {
  case: string;
  lengths: number[];
  greedy: number[][];
}

/** The input_ids of a case, as rows without padding. */
function inputIds(name: string, lengths: number[]): number[][] {
  const file = readFileSync(join(FIXTURE, 'cases.safetensors'));
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + headerBytes).toString());
  const { shape, data_offsets } = header[`${name}.input_ids`] as { shape: number[]; data_offsets: number[] };
  const start = 8 + headerBytes + data_offsets[0]!;
  return lengths.map((length, row) =>
    Array.from({ length }, (_, i) => Number(file.readBigInt64LE(start + (row * shape[1]! + i) * 8))),
  );
}

describe('a model without a tokenizer', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', FIXTURE, '--memory-budget', '25%']);
  });
  afterAll(() => server.stop());

  it('continues token ids as transformers does, with all cases at once', async () => {
    const cases = JSON.parse(readFileSync(join(FIXTURE, 'cases.json'), 'utf8')) as Case[];
    const answers = await Promise.all(
      cases.map((c) =>
        server.post('/v1/completions', {
          prompt: inputIds(c.case, c.lengths),
          max_tokens: 16,
          return_token_ids: true,
        }),
      ),
    );
    answers.forEach((answer, i) => {
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      cases[i]!.greedy.forEach((ids, row) => {
        const found = answer.body.choices[row].token_ids;
        // In the reference, a finished row of a padded batch continues with padding.
        expect(found).toEqual(ids.slice(1, 1 + found.length));
        if (found.length < 16) expect(found.at(-1)).toBe(1);
      });
    });
  });

  it('refuses text with a clear error', async () => {
    const answer = await server.post('/v1/completions', { prompt: 'hello' });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(answer.body.error.message).toMatch(/tokenizer/);
  });
});

describe('a model with a tokenizer', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%']);
  });
  afterAll(() => server.stop());

  const prompt = 'sst2 sentence: a gripping , beautifully acted film';

  it('classifies the sentence of the README as positive and reports the cost in experts', async () => {
    const answer = await server.post('/v1/classify', {
      task: 'sst2',
      input: 'a gripping , beautifully acted film',
      include: ['experts'],
    });
    expect(answer.status).toBe(200);
    expect(answer.body.data[0].label).toBe('positive');
    const { positive, negative } = answer.body.data[0].scores;
    expect(positive + negative).toBeCloseTo(1, 9);
    expect(answer.body.experts.needed).toBeGreaterThan(0);
    expect(answer.body.experts.loaded).toBe(answer.body.experts.needed - answer.body.experts.resident);
    expect(answer.headers.get('x-request-id')).toBeTruthy();
  });

  it('gives log-probabilities of the most likely tokens', async () => {
    const answer = await server.post('/v1/completions', { prompt, max_tokens: 4, logprobs: 3 });
    const { tokens, token_logprobs, top_logprobs } = answer.body.choices[0].logprobs;
    expect(tokens.length).toBeGreaterThan(0);
    token_logprobs.forEach((logprob: number, i: number) => {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(Object.keys(top_logprobs[i])).toHaveLength(3);
      expect(Math.max(...(Object.values(top_logprobs[i]) as number[]))).toBeCloseTo(logprob, 9);
    });
  });
});
