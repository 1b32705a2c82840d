import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { loadAddon } from '../../src/native/addon.js';
import type { PredictorShape, TrainingBatch } from '../../src/native/addon-types.js';

const REPO = join(import.meta.dirname, '../..');
const MINI = join(REPO, 'models/switch-mini');
const root = mkdtempSync(join(tmpdir(), 'sida-predictor-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const addon = loadAddon();
const WORDS = 24;
const WIDTH = 12;
const TOP = 3;

let directories = 0;
function fresh(): string {
  directories += 1;
  const path = join(root, String(directories));
  mkdirSync(path);
  return path;
}

/** Numbers in [0, 1) that are the same in every run. */
function random(seed: number): () => number {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

/** A safetensors file of one f32 tensor. */
function safetensors(name: string, shape: number[], data: Float32Array): Buffer {
  const header = JSON.stringify({ [name]: { dtype: 'F32', shape, data_offsets: [0, data.byteLength] } });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header), Buffer.from(data.buffer)]);
}

function smallEmbedding() {
  const next = random(3);
  const file = join(fresh(), 'embedding.safetensors');
  const data = Float32Array.from({ length: WORDS * WIDTH }, () => next() * 2 - 1);
  writeFileSync(file, safetensors('embedding.weight', [WORDS, WIDTH], data));
  return new addon.TokenEmbedding({ file });
}

const embedding = smallEmbedding();
const shape: PredictorShape = {
  dIn: WIDTH,
  hidden: 24,
  layers: 2,
  experts: 6,
  causal: false,
  bidirectional: false,
  positions: false,
  summary: false,
};
const settings = {
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  top: TOP,
  lambda: 0.005,
  k: 1,
  distillation: 'kl' as const,
  studentOverTop: false,
  clipNorm: 1,
  threads: 1,
};

/** Experts follow the word in layer 0; the word, the one before it and, with a context, its first, in layer 1. */
function task(seed: number, summary = false, sequences = 32): TrainingBatch {
  const next = random(seed);
  const below = (n: number) => Math.floor(next() * n);
  const tokens: number[] = [];
  const offsets = [0];
  const contextTokens: number[] = [];
  const contextOffsets = [0];
  const best: [number[], number[]] = [[], []];
  for (let s = 0; s < sequences; s += 1) {
    const context = below(2) * 12;
    if (summary) contextTokens.push(context, context + 1);
    contextOffsets.push(contextTokens.length);
    let before = 0;
    for (let left = 1 + below(10); left > 0; left -= 1) {
      const word = below(WORDS);
      tokens.push(word);
      best[0].push(word % shape.experts);
      best[1].push((word + 3 * (before % 2) + (summary ? context / 12 : 0)) % shape.experts);
      before = word;
    }
    offsets.push(tokens.length);
  }
  const flat = best.flat();
  return {
    tokens: Int32Array.from(tokens),
    offsets: Int32Array.from(offsets),
    ...(summary && {
      contextTokens: Int32Array.from(contextTokens),
      contextOffsets: Int32Array.from(contextOffsets),
    }),
    experts: Uint16Array.from(flat.flatMap((e) => [e, (e + 1) % 6, (e + 2) % 6])),
    logits: Float32Array.from(flat.flatMap(() => [4, 2, 0])),
    top: TOP,
  };
}

function trained(overrides: Partial<PredictorShape> = {}, steps = 150) {
  const trainer = new addon.PredictorTrainer({
    embedding,
    settings,
    shape: { ...shape, ...overrides },
    seed: 7,
  });
  for (let i = 0; i < steps; i += 1) trainer.step(task(i, overrides.summary), 1e-2);
  return trainer;
}

function savedPredictor(overrides: Partial<PredictorShape> = {}, steps = 3) {
  const directory = fresh();
  trained(overrides, steps).save(directory, false);
  return directory;
}

function predictAll(predictor: ReturnType<typeof openPredictor>, batch: TrainingBatch, k = 3) {
  const rows = predictor.shape.layers * batch.tokens.length;
  const experts = new Uint16Array(rows * k);
  const alpha = new Float32Array(rows * k);
  const logits = new Float32Array(rows * predictor.shape.experts);
  return { finite: predictor.predict(batch, k, experts, alpha, undefined, logits), experts, alpha, logits };
}

function openPredictor(directory: string, threads = 1) {
  return new addon.Predictor({ directory, embedding, threads });
}

function thrown(body: () => unknown): { code?: string; message: string; details?: Record<string, number> } {
  try {
    body();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

/** Rewrites the weights of a saved predictor and the digest that names them. */
function changeWeights(directory: string, change: (values: Float32Array) => void) {
  const name = readdirSync(directory).find((file) => file.startsWith('predictor-')) as string;
  const bytes = readFileSync(join(directory, name));
  const begin = 8 + Number(bytes.readBigUInt64LE());
  const values = new Float32Array(
    bytes.buffer.slice(bytes.byteOffset + begin, bytes.byteOffset + bytes.length),
  );
  change(values);
  const changed = Buffer.concat([bytes.subarray(0, begin), Buffer.from(values.buffer)]);
  const sha256 = createHash('sha256').update(changed).digest('hex');
  const config = JSON.parse(readFileSync(join(directory, 'predictor.json'), 'utf8'));
  writeFileSync(join(directory, `predictor-${sha256.slice(0, 16)}.safetensors`), changed);
  writeFileSync(join(directory, 'predictor.json'), JSON.stringify({ ...config, weights_sha256: sha256 }));
}

describe('token embedding', () => {
  it('is the same from a checkpoint, a pack in panels and a file', async () => {
    const { pack } = await convertCheckpoint({
      model: MINI,
      out: join(root, 'pack'),
      experts: 'auto',
      dense: 'auto',
    });
    const checkpoint = new addon.TokenEmbedding({ checkpoint: MINI });
    const files = [checkpoint, new addon.TokenEmbedding({ pack })].map((source) => {
      const file = join(fresh(), 'embedding.safetensors');
      source.save(file);
      return file;
    }) as [string, string];
    expect(readFileSync(files[1]).equals(readFileSync(files[0]))).toBe(true);
    const again = new addon.TokenEmbedding({ file: files[0] });
    expect([again.vocab, again.dModel]).toEqual([checkpoint.vocab, checkpoint.dModel]);
    expect(checkpoint.vocab).toBe(8000);
    const file = join(fresh(), 'again.safetensors');
    again.save(file);
    expect(readFileSync(file).equals(readFileSync(files[0]))).toBe(true);
  });

  it('is refused where there is none, with a typed error', () => {
    const other = join(fresh(), 'other.safetensors');
    writeFileSync(other, safetensors('other', [2, 2], new Float32Array(4)));
    const flat = join(fresh(), 'flat.safetensors');
    writeFileSync(flat, safetensors('embedding.weight', [4], new Float32Array(4)));
    const cut = join(fresh(), 'cut.safetensors');
    writeFileSync(cut, readFileSync(flat).subarray(0, 40));
    for (const file of [other, flat, cut]) {
      expect(thrown(() => new addon.TokenEmbedding({ file })).code).toBe('checkpoint_invalid');
    }
    expect(thrown(() => new addon.TokenEmbedding({ file: join(root, 'none') })).code).toBe('io_error');
    expect(thrown(() => new addon.TokenEmbedding({ pack: root })).code).toBe('io_error');
    expect(thrown(() => new addon.TokenEmbedding({} as never)).code).toBe('invalid_request');
    expect(thrown(() => new addon.TokenEmbedding(undefined as never)).code).toBe('invalid_request');
    expect(thrown(() => embedding.save(join(root, 'no/such/directory/x'))).code).toBe('io_error');
  });
});

describe('training', () => {
  it('learns words, neighbours and contexts; prediction hits where evaluation does', () => {
    for (const summary of [false, true]) {
      const trainer = trained({ summary }, 0);
      const heldOut = task(1000, summary, 64);
      const before = trainer.evaluate(heldOut);
      expect(before.applied).toBe(false);
      for (let i = 0; i < 250; i += 1) expect(trainer.step(task(i, summary), 1e-2).applied).toBe(true);
      const after = trainer.evaluate(heldOut);
      expect(trainer.steps).toBe(250);
      expect(after.loss).toBeLessThan(before.loss / 4);
      for (const layer of after.layers) expect(layer.hits[0] / layer.tokens).toBeGreaterThan(0.9);

      const directory = fresh();
      trainer.save(directory, false);
      const { experts, finite } = predictAll(openPredictor(directory), heldOut);
      expect(finite).toBe(true);
      const tokens = heldOut.tokens.length;
      for (let layer = 0; layer < 2; layer += 1) {
        const hits = [0, 0, 0];
        for (let row = layer * tokens; row < (layer + 1) * tokens; row += 1) {
          const rank = experts.subarray(row * 3, row * 3 + 3).indexOf(heldOut.experts[row * TOP] as number);
          for (let i = rank; rank >= 0 && i < 3; i += 1) hits[i] = (hits[i] as number) + 1;
        }
        expect(hits).toEqual(after.layers[layer]?.hits);
      }
    }
  });

  it('goes on from a save as if it had never stopped, with any number of threads', () => {
    const whole = trained({}, 6);
    const directory = fresh();
    trained({}, 3).save(directory, true);
    const rest = new addon.PredictorTrainer({ embedding, directory, settings: { ...settings, threads: 2 } });
    expect(rest.steps).toBe(3);
    expect(rest.shape).toEqual(shape);
    for (let i = 3; i < 6; i += 1) rest.step(task(i), 1e-2);
    const saved = [whole, rest].map((trainer) => {
      const path = fresh();
      trainer.save(path, true);
      return readFileSync(join(path, 'predictor.json'), 'utf8');
    });
    expect(saved[1]).toBe(saved[0]);
  });

  it('refuses what does not fit, and changes nothing', () => {
    const trainer = trained({}, 1);
    const batch = task(1);
    const step = (changes: object) => thrown(() => trainer.step({ ...batch, ...changes }, 1e-2));
    const before = trainer.evaluate(batch).loss;
    for (const changes of [
      { experts: batch.experts.subarray(1) },
      { logits: new Float64Array(batch.logits) },
      { experts: new Uint16Array(batch.experts.length).fill(6) },
      { logits: new Float32Array(batch.logits.length).fill(Number.NaN) },
      { top: 0 },
      { top: 1.5 },
      { tokens: Int32Array.from(batch.tokens, () => WORDS) },
      { tokens: Array.from(batch.tokens) },
      { offsets: batch.offsets.subarray(1) },
      { offsets: undefined },
    ]) {
      expect(step(changes).code, JSON.stringify(Object.keys(changes))).toBe('invalid_request');
    }
    expect(step({ experts: batch.experts.subarray(1) }).details).toEqual({
      expected: batch.experts.length,
      found: batch.experts.length - 1,
    });
    expect(thrown(() => trainer.step(batch, Number.NaN)).message).toMatch(/learningRate/);
    expect(thrown(() => trainer.step(undefined as never, 1)).code).toBe('invalid_request');
    expect(thrown(() => trainer.save(join(root, 'nowhere'), true)).code).toBe('io_error');
    expect(trainer.evaluate(batch).loss).toBe(before);
    expect(trainer.steps).toBe(1);
    trainer.close();
    trainer.close();
    expect(thrown(() => trainer.evaluate(batch)).message).toMatch(/closed/);
    expect(thrown(() => trainer.shape).message).toMatch(/closed/);
  });

  it('refuses shapes and settings out of range by name', () => {
    const open = (overrides: object, other: object = {}) =>
      thrown(
        () =>
          new addon.PredictorTrainer({
            embedding,
            settings,
            shape: { ...shape, ...overrides },
            seed: 1,
            ...other,
          }),
      );
    for (const [name, value] of [
      ['hidden', 0],
      ['hidden', 1.5],
      ['experts', 70000],
      ['layers', '2'],
      ['causal', 1],
      ['summary', undefined],
    ]) {
      expect(open({ [name as string]: value }).message).toContain(`"${name}"`);
    }
    for (const [name, value] of Object.entries({
      beta1: 1,
      epsilon: 0,
      weightDecay: -1,
      top: 0,
      lambda: Number.NaN,
      distillation: 'l2',
      studentOverTop: 0,
      clipNorm: -1,
      threads: 0,
    })) {
      const error = open({}, { settings: { ...settings, [name]: value } });
      expect(error.code).toBe('invalid_request');
      expect(error.message).toContain(`"${name}"`);
    }
    expect(open({ dIn: WIDTH + 1 }).details).toEqual({ expected: WIDTH + 1, found: WIDTH });
    expect(open({}, { seed: -1 }).message).toContain('"seed"');
    expect(open({}, { embedding: {} }).message).toContain('TokenEmbedding');
    expect(open({}, { embedding: trained({}, 0) }).message).toContain('TokenEmbedding');
    expect(open({}, { directory: join(root, 'none') }).code).toBe('io_error');
  });
});

describe('prediction', () => {
  it('ranks by logit and gives the softmax over all experts, into shared memory too', () => {
    const predictor = openPredictor(savedPredictor());
    const batch = task(5);
    const { experts, alpha, logits } = predictAll(predictor, batch, 6);
    for (let row = 0; row < 2 * batch.tokens.length; row += 1) {
      const z = Array.from(logits.subarray(row * 6, row * 6 + 6));
      const order = z.map((_, e) => e).sort((a, b) => (z[b] as number) - (z[a] as number) || a - b);
      expect(Array.from(experts.subarray(row * 6, row * 6 + 6))).toEqual(order);
      const sum = z.reduce((total, v) => total + Math.exp(v), 0);
      order.forEach((e, i) => {
        expect(alpha[row * 6 + i]).toBeCloseTo(Math.exp(z[e] as number) / sum, 6);
      });
    }
    const shared = new Uint16Array(new SharedArrayBuffer(experts.byteLength / 6));
    const sharedAlpha = new Float32Array(new SharedArrayBuffer(alpha.byteLength / 6));
    expect(predictor.predict(batch, 1, shared, sharedAlpha)).toBe(true);
    expect(shared).toEqual(experts.filter((_, i) => i % 6 === 0));
    expect(Array.from(sharedAlpha)).toEqual(Array.from(alpha.filter((_, i) => i % 6 === 0)));
  });

  it('gives the same bits with any number of threads, and counts its memory', () => {
    const directory = savedPredictor({ summary: true });
    const batch = task(5, true, 200);
    const one = openPredictor(directory);
    const folded = 2 * WORDS * shape.hidden * 4;
    expect(one.bytes).toBeGreaterThan(folded);
    expect(one.bytes).toBeLessThan(folded + 200_000);
    const a = predictAll(one, batch);
    const b = predictAll(openPredictor(directory, 3), batch);
    expect(Buffer.from(b.logits.buffer).equals(Buffer.from(a.logits.buffer))).toBe(true);
    expect(b.experts).toEqual(a.experts);
    expect(b.alpha).toEqual(a.alpha);
  });

  it('step by step is the whole sequence', () => {
    for (const summary of [false, true]) {
      const predictor = openPredictor(savedPredictor({ causal: true, summary }));
      const batch = task(9, summary, 5);
      const whole = predictAll(predictor, batch);
      const lengths = Array.from(
        { length: 5 },
        (_, s) => (batch.offsets[s + 1] as number) - (batch.offsets[s] as number),
      );
      predictor.begin(Int32Array.of(10, 11, 12, 13, 14), batch.contextTokens, batch.contextOffsets);
      for (let t = 0; t < Math.max(...lengths); t += 1) {
        const live = [0, 1, 2, 3, 4].filter((s) => t < (lengths[s] as number));
        const rows = live.map((s) => (batch.offsets[s] as number) + t);
        const experts = new Uint16Array(2 * live.length * 3);
        const alpha = new Float32Array(2 * live.length * 3);
        const ids = Int32Array.from(live, (s) => s + 10);
        expect(
          predictor.step(
            ids,
            Int32Array.from(rows, (row) => batch.tokens[row] as number),
            3,
            experts,
            alpha,
          ),
        ).toBe(true);
        for (let layer = 0; layer < 2; layer += 1) {
          rows.forEach((row, i) => {
            const at = (layer * batch.tokens.length + row) * 3;
            const here = (layer * live.length + i) * 3;
            expect(experts.subarray(here, here + 3)).toEqual(whole.experts.subarray(at, at + 3));
            expect(alpha.subarray(here, here + 3)).toEqual(whole.alpha.subarray(at, at + 3));
          });
        }
      }
      predictor.end(Int32Array.of(10, 11, 99));
      predictor.begin(Int32Array.of(10), batch.contextTokens?.subarray(0, 2), Int32Array.of(0, 2));
    }
  });

  it('refuses weights that are not finite when it opens, and says so where logits are not', () => {
    const directory = savedPredictor({ causal: true });
    changeWeights(directory, (values) => values.fill(Number.NaN, 5, 6));
    const error = thrown(() => openPredictor(directory));
    expect(error.code).toBe('checkpoint_invalid');
    expect(error.message).toMatch(/element 5: expected a finite number/);
    changeWeights(directory, (values) => values.fill(3e38));
    const predictor = openPredictor(directory);
    const batch = task(5);
    expect(predictAll(predictor, batch).finite).toBe(false);
    predictor.begin(Int32Array.of(1));
    expect(
      predictor.step(Int32Array.of(1), Int32Array.of(1), 1, new Uint16Array(2), new Float32Array(2)),
    ).toBe(false);
  });

  it('refuses damaged directories and other models', () => {
    const directory = savedPredictor();
    const other = join(fresh(), 'embedding.safetensors');
    writeFileSync(other, safetensors('embedding.weight', [3, 5], new Float32Array(15)));
    const narrow = new addon.TokenEmbedding({ file: other });
    const error = thrown(() => new addon.Predictor({ directory, embedding: narrow, threads: 1 }));
    expect(error.code).toBe('checkpoint_invalid');
    expect(error.details).toEqual({ expected: WIDTH, found: 5 });
    expect(thrown(() => openPredictor(root)).code).toBe('io_error');
    expect(thrown(() => openPredictor(directory, 0)).message).toContain('"threads"');
    writeFileSync(join(directory, 'predictor.json'), '{}');
    expect(thrown(() => openPredictor(directory)).code).toBe('checkpoint_invalid');
    expect(
      thrown(() => new addon.Predictor({ directory: 5, embedding, threads: 1 } as never)).message,
    ).toContain('"directory"');
  });

  it('refuses malformed input with the numbers and stays usable', () => {
    const predictor = openPredictor(savedPredictor({ causal: true, summary: true }));
    const tokens = Int32Array.of(1, 2, 3);
    const offsets = Int32Array.of(0, 1, 3);
    const context = { contextTokens: Int32Array.of(4), contextOffsets: Int32Array.of(0, 0, 1) };
    const good = { tokens, offsets, ...context };
    const predict = (
      input: object,
      k = 1,
      experts: unknown = new Uint16Array(6 * k),
      alpha: unknown = new Float32Array(6 * k),
    ) => predictor.predict(input as never, k, experts as never, alpha as never);
    expect(predict(good)).toBe(true);
    const refused = (changes: object) => thrown(() => predict({ ...good, ...changes }));
    expect(refused({ tokens: Int32Array.of(1, 2, WORDS) }).message).toMatch(
      /token id 24 at position 2 of "tokens" is outside the vocabulary of 24/,
    );
    for (const changes of [
      { tokens: Int32Array.of(1, -2, 3) },
      { tokens: Float32Array.of(1, 2, 3) },
      { tokens: undefined },
      { offsets: Int32Array.of() },
      { offsets: Int32Array.of(0, 2) },
      { offsets: Int32Array.of(1, 1, 3) },
      { offsets: Int32Array.of(0, 4, 3) },
      { offsets: Int32Array.of(0, -1, 3) },
      { contextTokens: Int32Array.of(WORDS) },
      { contextTokens: undefined },
      { contextOffsets: undefined },
      { contextOffsets: Int32Array.of(0, 1) },
      { contextOffsets: Int32Array.of(0, 1, 2) },
    ]) {
      expect(refused(changes).code, JSON.stringify(changes)).toBe('invalid_request');
    }
    for (const k of [0, 7, 1.5, Number.NaN]) expect(thrown(() => predict(good, k)).message).toMatch(/"k"/);
    expect(thrown(() => predict(good, 1, new Uint16Array(5))).details).toEqual({ expected: 6, found: 5 });
    expect(thrown(() => predict(good, 1, new Int32Array(6))).message).toMatch(/"experts"/);
    expect(thrown(() => predict(good, 1, new Uint16Array(6), new Float64Array(6))).message).toMatch(
      /"alpha"/,
    );
    expect(
      thrown(() =>
        predictor.predict(good, 1, new Uint16Array(6), new Float32Array(6), undefined, new Float32Array(1)),
      ).message,
    ).toMatch(/"logits"/);
    expect(
      thrown(() => predictor.predict(undefined as never, 1, new Uint16Array(0), new Float32Array(0))).code,
    ).toBe('invalid_request');
    expect(
      predict(
        { tokens: Int32Array.of(), offsets: Int32Array.of(0, 0, 0), ...context },
        1,
        new Uint16Array(0),
        new Float32Array(0),
      ),
    ).toBe(true);

    const id = Int32Array.of(7);
    const step = (ids: Int32Array, next: Int32Array) =>
      thrown(() =>
        predictor.step(ids, next, 1, new Uint16Array(2 * ids.length), new Float32Array(2 * ids.length)),
      );
    expect(step(id, id).message).toMatch(/no sequence 7/);
    expect(thrown(() => predictor.begin(id)).code).toBe('invalid_request');
    expect(
      thrown(() => predictor.begin(Int32Array.of(1, 1), Int32Array.of(), Int32Array.of(0, 0, 0))).message,
    ).toMatch(/1 .*exists/);
    predictor.begin(id, Int32Array.of(1, 2), Int32Array.of(0, 2));
    expect(thrown(() => predictor.begin(id, Int32Array.of(1), Int32Array.of(0, 1))).message).toMatch(
      /7 .*exists/,
    );
    expect(step(Int32Array.of(7, 7), Int32Array.of(1, 1)).message).toMatch(/twice/);
    expect(step(id, Int32Array.of(1, 2)).message).toMatch(/2 tokens for 1/);
    expect(step(id, Int32Array.of(-1)).message).toMatch(/token id -1/);
    predictor.begin(Int32Array.of(1), Int32Array.of(), Int32Array.of(0, 0));
    predictor.end(Int32Array.of(1, 7, 8));
    expect(step(id, Int32Array.of(1)).message).toMatch(/no sequence 7/);

    const steady = openPredictor(savedPredictor());
    expect(thrown(() => steady.begin(id)).message).toMatch(/causal/);
    expect(thrown(() => steady.step(id, id, 1, new Uint16Array(2), new Float32Array(2))).message).toMatch(
      /causal/,
    );
  });

  it('cannot be entered again or closed in the middle of a call', () => {
    const predictor = openPredictor(savedPredictor());
    const { offsets, tokens } = task(5);
    for (const again of [() => predictor.close(), () => predictAll(predictor, task(5))]) {
      const input = {
        offsets,
        get tokens() {
          again();
          return tokens;
        },
      };
      expect(
        thrown(() => predictor.predict(input, 1, new Uint16Array(0), new Float32Array(0))).message,
      ).toMatch(/in the middle of a call/);
    }
    expect(predictAll(predictor, task(5)).finite).toBe(true);
    predictor.close();
    predictor.close();
    expect(thrown(() => predictAll(predictor, task(5))).message).toMatch(/closed/);
    expect(thrown(() => predictor.bytes).message).toMatch(/closed/);
  });
});
