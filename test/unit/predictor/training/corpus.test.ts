import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Corpus } from '../../../../src/predictor/training/corpus.js';
import { tracedModel } from '../../../support/traced-model.js';
import { recordOf, writeTrace } from './trace-fixture.js';

const root = mkdtempSync(join(tmpdir(), 'sida-corpus-'));
const [a, b] = [join(root, 'a'), join(root, 'b')];
beforeAll(async () => {
  await writeTrace(a, [recordOf(0, 3, 1), recordOf(1, 1, 2)]);
  await writeTrace(b, [recordOf(2, 2, 1, 5)], { top: 5 });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const VOCAB = 30;

describe('a corpus', () => {
  it('numbers the sequences of its traces one after the other', async () => {
    const corpus = await Corpus.open([a, b], VOCAB);
    expect(corpus.starts).toEqual([0, 2, 3]);
    expect([0, 1, 2].map((i) => corpus.length(i, 0))).toEqual([3, 1, 2]);
    expect([0, 1, 2].map((i) => corpus.length(i, 1))).toEqual([1, 2, 1]);
    expect([0, 1, 2].map((i) => corpus.record(i).line)).toEqual([0, 1, 2]);
    expect(corpus.shape).toEqual({
      stacks: [
        { name: 'encoder', layers: 2, causal: false, crosses: false },
        { name: 'decoder', layers: 1, causal: true, crosses: true },
      ],
      ...{ experts: 8, firstExperts: [0, 8, 16, 24], topK: 1, normalized: false, vocab: VOCAB },
    });
    corpus.close();
  });

  it('returns batches layer by layer, cut to the requested number of experts', async () => {
    const corpus = await Corpus.open([a, b], VOCAB);
    const batch = corpus.batch(Int32Array.of(2, 0), 0, 2);
    expect([...batch.tokens]).toEqual([20, 21, 0, 1, 2]);
    expect([...batch.offsets]).toEqual([0, 2, 5]);
    // Each expert is line + layer + token + rank, see the fixture.
    expect([...batch.experts]).toEqual([
      ...[2, 3, 3, 4, 0, 1, 1, 2, 2, 3],
      ...[3, 4, 4, 5, 1, 2, 2, 3, 3, 4],
    ]);
    expect([...batch.logits.subarray(0, 4)]).toEqual([2, 1.875, 3, 2.875]);
    expect(batch.contextTokens).toBeUndefined();
    corpus.close();
  });

  it('returns decoder batches with the encoder tokens of each sequence as context', async () => {
    const corpus = await Corpus.open([a, b], VOCAB);
    const batch = corpus.batch(Int32Array.of(1, 2), 1, 3);
    expect([...batch.tokens]).toEqual([10, 11, 20]);
    expect([...batch.contextTokens!]).toEqual([10, 20, 21]);
    expect([...batch.contextOffsets!]).toEqual([0, 1, 3]);
    corpus.close();
  });

  it('gives experts that were not chosen no larger logit than those that were', async () => {
    const directory = join(root, 'corrected');
    const record = recordOf(0, 1, 1, 4);
    record.stacks[1]!.logits.set([2, 1, 3, 0.5]);
    await writeTrace(directory, [record], { top: 4, topK: 2 });
    const corpus = await Corpus.open([directory], VOCAB);
    expect([...corpus.batch(Int32Array.of(0), 1, 4).logits]).toEqual([2, 1, 1, 0.5]);
    expect([...corpus.batch(Int32Array.of(0), 1, 3).logits]).toEqual([2, 1, 1]);
    corpus.close();
  });

  it('refuses missing, empty, incomplete and damaged traces', async () => {
    await expect(Corpus.open([join(root, 'none')], VOCAB)).rejects.toThrow(/none.*no trace/);
    await writeTrace(join(root, 'empty'), []);
    await expect(Corpus.open([a, join(root, 'empty')], VOCAB)).rejects.toThrow('no records');
    await writeTrace(join(root, 'cut'), [recordOf(0, 3, 1)], {}, false);
    await expect(Corpus.open([join(root, 'cut')], VOCAB)).rejects.toThrow(
      /incomplete: it holds 1 records of d\.jsonl/,
    );
  });

  it('must be of one model', async () => {
    const other = join(root, 'other');
    await writeTrace(other, [recordOf(0, 3, 1)], { model: tracedModel('n', '0'.repeat(64)) });
    await expect(Corpus.open([a, other], VOCAB)).rejects.toThrow(
      /different models: .*a of m \(weights ffffffffffff, tokenizer 000000000000\), .*other of n/,
    );
    const deeper = join(root, 'deeper');
    await writeTrace(deeper, [recordOf(0, 3, 1)], { experts: 9 });
    await expect(Corpus.open([a, deeper], VOCAB)).rejects.toThrow('not the same layers and experts');
  });

  it('knows how many experts each layer has, and refuses others', async () => {
    const directory = join(root, 'unequal');
    const record = recordOf(0, 3, 1, 2);
    record.stacks[0]!.experts.set([0, 1, 1, 0, 0, 1, 2, 7, 6, 1, 0, 3]);
    record.stacks[1]!.experts.set([4, 1]);
    await writeTrace(directory, [record], { top: 2, layerExperts: [2, 8, 4] });
    const corpus = await Corpus.open([directory], VOCAB);
    expect(corpus.shape.firstExperts).toEqual([0, 2, 10, 14]);
    expect(() => corpus.record(0)).toThrow('line 1, decoder: expert 4, a layer has 4');
    corpus.close();
    await expect(Corpus.open([a, directory], VOCAB)).rejects.toThrow('not the same layers and experts');
  });

  it.each([
    ['token 99, the vocabulary has 30', 'tokens', 99],
    ['expert 8, a layer has 8', 'experts', 8],
    ['router logit NaN', 'logits', Number.NaN],
  ] as const)('refuses a record with %s', async (message, field, value) => {
    const directory = join(root, field);
    const record = recordOf(0, 3, 1);
    record.stacks[1]![field][0] = value;
    await writeTrace(directory, [record]);
    const corpus = await Corpus.open([directory], VOCAB);
    expect(() => corpus.record(0)).toThrow(`line 1, decoder: ${message}`);
    corpus.close();
  });
});
