// Embeddings of models with an encoder and a decoder, and with a decoder. encoder-only.test.ts has an encoder alone.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MINI, REPO, ServerProcess } from '../../support/server-process.js';

const OLMOE = join(REPO, 'test/fixtures/olmoe-tiny');
const ids = (length: number, from: number) => Array.from({ length }, (_, i) => from + ((i * 7) % 90));

describe.each([
  ['an encoder-decoder model', MINI, ['a fine film', 'a dull and rather long film about films'], 128],
  ['a decoder-only model', OLMOE, [ids(5, 10), ids(70, 20)], 64],
])('embeddings of %s', (_, model, input, width) => {
  it('are the same at every budget, alone, together, and in chunks of any length', async () => {
    const found: number[][][] = [];
    for (const [budget, tokens] of [
      ['100%', '512'],
      ['1%', '32'],
    ]) {
      const flags = ['--memory-budget', budget!, '--max-batch-tokens', tokens!, '--kv-tokens', '1024'];
      const server = await ServerProcess.start(['--model', model, ...flags]);
      const embed = async (asked: unknown): Promise<number[][]> => {
        const { status, body } = await server.post('/v1/embeddings', { input: asked, include: ['experts'] });
        expect(status, JSON.stringify(body)).toBe(200);
        expect(body.experts.needed).toBeGreaterThan(0);
        return body.data.map(({ embedding }: { embedding: number[] }) => embedding);
      };
      found.push(await embed(input));
      found.push([(await embed(input[0]))[0]!, (await embed([input[1]]))[0]!]);
      await server.stop();
    }
    expect(found[0]!.map(({ length }) => length)).toEqual([width, width]);
    for (const values of found[0]!) expect(Math.hypot(...values)).toBeCloseTo(1, 6);
    expect(found[0]![0]).not.toEqual(found[0]![1]);
    for (const other of found) expect(other).toEqual(found[0]);
  });
});
