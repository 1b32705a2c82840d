import { describe, expect, it } from 'vitest';
import { SidaError } from '../../../../src/errors.js';
import { DeltaReader, DeltaWriter } from '../../../../src/queue/redis/deltas.js';
import { DELTA_BYTES } from '../../../../src/queue/refusals.js';

const delta = (text: string) => ({ index: 0, text, tokenIds: [7], logprobs: null, finishReason: null });

describe('writer', () => {
  /** A Redis that answers each write when the test says so. */
  function setup() {
    const writes: { seq: number; texts: string[]; answer: (error?: Error) => void }[] = [];
    const errors: SidaError[] = [];
    const writer = new DeltaWriter(
      (seq, deltas) =>
        new Promise((resolve, reject) => {
          const answer = (error?: Error) => (error === undefined ? resolve() : reject(error));
          writes.push({ seq, texts: deltas.map(({ text }) => text), answer });
        }),
      (error) => errors.push(error),
    );
    return { writer, writes, errors };
  }

  it('sends what arrives during a write with the next one, and says how many deltas come before', async () => {
    const { writer, writes } = setup();
    for (const text of ['a', 'b', 'c']) writer.add(delta(text));
    writes[0]!.answer();
    await new Promise((resolve) => setImmediate(resolve));
    writes[1]!.answer();
    await writer.written();
    expect(writes.map(({ seq, texts }) => [seq, texts])).toEqual([
      [0, ['a']],
      [1, ['b', 'c']],
    ]);
  });

  it('ends the run and writes no more when a write fails', async () => {
    const { writer, writes, errors } = setup();
    writer.add(delta('a'));
    writer.add(delta('b'));
    writes[0]!.answer(new SidaError({ code: 'internal', message: 'broken' }));
    await writer.written();
    writer.add(delta('c'));
    expect([writes.length, errors.map(({ code }) => code)]).toEqual([1, ['internal']]);
  });

  it('ends the run when its deltas are too large', () => {
    const { writer, writes, errors } = setup();
    const large = 'x'.repeat(DELTA_BYTES / 2);
    for (let i = 0; i < 3; i += 1) writer.add(delta(large));
    expect([writes.length, errors.map(({ code, ran }) => [code, ran])]).toEqual([1, [['cannot_run', true]]]);
  });
});

describe('reader', () => {
  const report = (turn: number, run: number, seq: number, ...texts: string[]) => ({
    ...{ turn, run, seq, startedMs: 0, queued: false },
    deltas: texts.map(delta),
  });
  const textsOf = (reader: DeltaReader, ...about: Parameters<typeof report>) =>
    reader.take(report(...about))?.map(({ text }) => text);

  it('takes each delta once, in whatever pieces reports repeat them', () => {
    const reader = new DeltaReader();
    expect(textsOf(reader, 1, 1, 0, 'a', 'b')).toEqual(['a', 'b']);
    expect(textsOf(reader, 1, 1, 0, 'a', 'b')).toEqual([]);
    expect(textsOf(reader, 1, 1, 1, 'b', 'c')).toEqual(['c']);
  });

  it('says when earlier deltas are missing, and continues once they are there', () => {
    const reader = new DeltaReader();
    expect(textsOf(reader, 1, 1, 2, 'c')).toBeUndefined();
    expect(textsOf(reader, 1, 1, 0, 'a', 'b')).toEqual(['a', 'b']);
    expect(textsOf(reader, 1, 1, 2, 'c')).toEqual(['c']);
  });

  it('begins again with each run, and ignores an earlier one', () => {
    const reader = new DeltaReader();
    expect(textsOf(reader, 1, 1, 0, 'a')).toEqual(['a']);
    expect(textsOf(reader, 1, 2, 0, 'b')).toEqual(['b']);
    // The first worker was frozen, and wakes up.
    expect(textsOf(reader, 2, 2, 0, 'c')).toEqual(['c']);
    expect(textsOf(reader, 1, 2, 1, 'late')).toEqual([]);
  });

  it('refuses a delta of another form', () => {
    const broken = { ...report(1, 1, 0), deltas: [{ text: 7 }] };
    expect(() => new DeltaReader().take(broken)).toThrow(/delta in Redis/);
  });
});
