// A GGUF file gives the model of the Hugging Face checkpoint that it was written from: the same packed bytes and the
// same logits, for each family, and for the forms in which converters have written it. The public package wrote the
// files (test/fixtures/gguf).
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { verifyWeights } from '../../src/checkpoint/verify-weights.js';
import type { PackFormats } from '../../src/native/addon-types.js';
import { embedsOnly } from '../../src/native/model-shape.js';
import { StateMean } from '../../src/scheduler/state-mean.js';
import { addon, fresh, openEngine, passOf, root } from './fixture.js';

const FIXTURES = join(import.meta.dirname, '../fixtures/gguf');

const FAMILIES = readdirSync(FIXTURES)
  .filter((name) => name.endsWith('.config.json'))
  .map((name) => name.slice(0, -'.config.json'.length));

beforeAll(() => {
  for (const name of readdirSync(FIXTURES)) {
    if (!name.endsWith('.br')) continue;
    const bytes = brotliDecompressSync(readFileSync(join(FIXTURES, name)));
    if (name.endsWith('.gguf.br')) writeFileSync(join(root, name.slice(0, -3)), bytes);
  }
  for (const family of FAMILIES) {
    const directory = join(root, family);
    mkdirSync(directory);
    writeFileSync(join(directory, 'config.json'), readFileSync(join(FIXTURES, `${family}.config.json`)));
    const weights = brotliDecompressSync(readFileSync(join(FIXTURES, `${family}.safetensors.br`)));
    writeFileSync(join(directory, 'model.safetensors'), weights);
  }
});

const TOKENS = Int32Array.from({ length: 40 }, (_, i) => 3 + ((i * 7) % 45));

/** The packed bytes of a model, and its logits after each token; of a model without a head its states. */
async function packed(model: string, formats: PackFormats) {
  const { pack } = await convertCheckpoint({ model, out: join(fresh(), 'pack'), ...formats });
  const engine = openEngine(pack, { maxBatchTokens: 64, kvTokens: 128, threads: 1 });
  const asked = embedsOnly(engine.shape)
    ? { hiddenStates: true }
    : { logitRows: Int32Array.from(TOKENS.keys()) };
  const { logits, hiddenStates = logits } = engine.runBatch(passOf(TOKENS, 1, asked), null);
  engine.close();
  const bytes = (name: string) => readFileSync(join(pack, name));
  return {
    dense: bytes('dense.sida'),
    experts: bytes('experts.sida'),
    logits: Buffer.from(hiddenStates!.buffer),
  };
}

async function expectSame(model: string, other: string, formats: PackFormats) {
  const [found, wanted] = [await packed(model, formats), await packed(other, formats)];
  for (const part of ['dense', 'experts', 'logits'] as const) {
    expect(found[part].equals(wanted[part]), `${formats.experts.dtype} ${part}`).toBe(true);
  }
}

const formsOf = (family: string) =>
  readdirSync(FIXTURES)
    .filter((name) => name.startsWith(`${family}.`) || name.startsWith(`${family}-`))
    .filter((name) => name.endsWith('.gguf.br') && !/q\d_0|mxfp4/.test(name))
    .map((name) => name.slice(0, -3));

describe.each(FAMILIES)('%s as GGUF', (family) => {
  it.each(formsOf(family))('%s has the weights and the logits of the checkpoint', async (file) => {
    for (const dtype of ['f32', 'bf16'] as const) {
      await expectSame(join(root, file), join(root, family), { experts: { dtype }, dense: { dtype } });
    }
  });
});

// llama.cpp's GELU is a table of float16, which the gates of this model are too large for; its KV cache was one of f32.
it.each([64, 7, 1])('gemma4 has the logits of llama.cpp, %i tokens at a time', async (step) => {
  const out = join(fresh(), 'pack');
  const f32 = { experts: { dtype: 'f32' }, dense: { dtype: 'f32' } } as const;
  const { pack } = await convertCheckpoint({ model: join(root, 'gemma4.gguf'), out, ...f32 });
  const engine = openEngine(pack, { maxBatchTokens: 64, kvTokens: 128, threads: 1 });
  const rows: number[][] = JSON.parse(readFileSync(join(FIXTURES, 'gemma4.llama.json'), 'utf8'));
  const most = Math.max(...rows.flat().map(Math.abs));
  for (let begin = 0; begin < TOKENS.length; begin += step) {
    const part = TOKENS.slice(begin, begin + step);
    const { logits } = engine.runBatch(passOf(part, 1, { logitRows: Int32Array.from(part.keys()) }), null);
    const wanted = rows.slice(begin, begin + step).flat();
    expect(Math.max(...wanted.map((logit, i) => Math.abs(logit - logits![i]!)))).toBeLessThan(1e-4 * most);
  }
  engine.close();
});

describe('quantized GGUF files', () => {
  const QUANTIZED = ['olmoe.q8_0.gguf', 'olmoe.q4_0.gguf', 'olmoe.mxfp4.gguf', 'qwen3_moe.q8_0.gguf'];
  it.each(QUANTIZED)('%s: its numbers are packed', async (file) => {
    const model = join(root, file);
    const { lossless } = addon.inspectCheckpoint(model);
    expect(lossless.experts.dtype).toBe(file.split('.')[1]);
    const { pack } = await convertCheckpoint({ model, out: join(root, `${file}-pack`), ...lossless });
    const { experts, dense } = await verifyWeights({ model, pack });
    expect([experts.largest, dense.largest]).toEqual([0, 0]);
  });

  // Weights are quantized to q8_0 and q4_0 as the public package does it.
  it.each(QUANTIZED.filter((file) => /q\d_0/.test(file)))(
    '%s has the weights and the logits of the checkpoint packed in its types',
    async (file) => {
      const [family = ''] = file.split('.');
      const { lossless } = addon.inspectCheckpoint(join(root, file));
      await expectSame(join(root, file), join(root, family), lossless);
    },
  );
});

/** Means of states, by llama.cpp and in float64 (test/fixtures/nomic-bert/make.py). */
interface Means {
  ids: number[];
  llama: number[];
  erf: number[];
}

it("nomic_bert.gguf gives llama.cpp's embeddings, whose GELU is a table of f16, and those of float64", async () => {
  const cases: Means[] = JSON.parse(readFileSync(join(FIXTURES, '../nomic-bert/llama.json'), 'utf8'));
  const { pack } = await convertCheckpoint({
    model: join(root, 'nomic_bert.gguf'),
    out: join(fresh(), 'pack'),
    experts: { dtype: 'f32' },
    dense: { dtype: 'f32' },
  });
  const engine = openEngine(pack, { maxBatchTokens: 64, kvTokens: 128, threads: 1 });
  for (const { ids, llama, erf } of cases) {
    const { hiddenStates } = engine.runBatch(passOf(ids, 1, { hiddenStates: true }), null);
    engine.releaseSequences(Int32Array.of(1));
    const mean = new StateMean();
    mean.add(hiddenStates!, ids.length);
    const error = (other: number[]) =>
      Math.hypot(...mean.values().map((value, i) => value - other[i]!)) / Math.hypot(...other);
    expect(error(llama)).toBeLessThan(1e-4);
    expect(error(erf)).toBeLessThan(2e-6);
  }
  engine.close();
});
