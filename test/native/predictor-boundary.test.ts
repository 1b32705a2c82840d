import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addon, fresh, root, thrown } from './fixture.js';
import {
  embedding,
  openPredictor,
  predictAll,
  safetensors,
  savedPredictor,
  task,
  WIDTH,
  WORDS,
} from './predictor-fixture.js';

describe('the boundary of the token embedding', () => {
  it('refuses a source without an embedding, with a typed error', () => {
    const other = join(fresh(), 'other.safetensors');
    writeFileSync(other, safetensors('other', [2, 2], new Float32Array(4)));
    const flat = join(fresh(), 'flat.safetensors');
    writeFileSync(flat, safetensors('embedding.weight', [4], new Float32Array(4)));
    const cut = join(fresh(), 'cut.safetensors');
    writeFileSync(cut, readFileSync(flat).subarray(0, 40));
    for (const file of [other, flat, cut]) {
      expect(thrown(() => new addon.TokenEmbedding({ file })).code).toBe('checkpoint_invalid');
    }
    for (const absent of [{ file: join(root, 'none') }, { pack: root }]) {
      const { code, message } = thrown(() => new addon.TokenEmbedding(absent));
      expect(code).toBe('checkpoint_invalid');
      expect(message).toMatch(/: missing/);
    }
    expect(thrown(() => new addon.TokenEmbedding({} as never)).code).toBe('invalid_request');
    expect(thrown(() => new addon.TokenEmbedding(undefined as never)).code).toBe('invalid_request');
    expect(thrown(() => embedding.save(join(root, 'no/such/directory/x'))).code).toBe('io_error');
  });
});

describe('the boundary of the predictor', () => {
  it('refuses damaged directories and other models', () => {
    const directory = savedPredictor();
    const other = join(fresh(), 'embedding.safetensors');
    writeFileSync(other, safetensors('embedding.weight', [3, 5], new Float32Array(15)));
    const narrow = new addon.TokenEmbedding({ file: other });
    const error = thrown(() => new addon.Predictor({ directory, embedding: narrow, threads: 1 }));
    expect(error.code).toBe('checkpoint_invalid');
    expect(error.details).toEqual({ expected: WIDTH, found: 5 });
    const missing = thrown(() => openPredictor(root));
    expect(missing.code).toBe('checkpoint_invalid');
    expect(missing.message).toMatch(/: missing/);
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
      thrown(() => predictor.predict(good, 1, new Uint16Array(6), new Float32Array(6), new Float32Array(5)))
        .message,
    ).toMatch(/"chance" to hold 6 elements, found 5/);
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
    predictor.fork(id, Int32Array.of(8));
    expect(thrown(() => predictor.fork(id, Int32Array.of(8))).message).toMatch(/8 .*exists/);
    expect(thrown(() => predictor.fork(Int32Array.of(9), Int32Array.of(10))).message).toMatch(
      /no sequence 9/,
    );
    expect(thrown(() => predictor.fork(id, Int32Array.of(10, 11))).message).toMatch(
      /1 sequences to copy for 2/,
    );
    predictor.begin(Int32Array.of(1), Int32Array.of(), Int32Array.of(0, 0));
    predictor.end(Int32Array.of(1, 7, 8));
    expect(step(id, Int32Array.of(1)).message).toMatch(/no sequence 7/);

    const steady = openPredictor(savedPredictor());
    expect(thrown(() => steady.begin(id)).message).toMatch(/causal/);
    expect(thrown(() => steady.step(id, id, 1, new Uint16Array(2), new Float32Array(2))).message).toMatch(
      /causal/,
    );
  });

  it('refuses calls and close() in the middle of a call', () => {
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
