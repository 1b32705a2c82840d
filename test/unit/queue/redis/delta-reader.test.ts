import { expect, it } from 'vitest';
import { DeltaReader } from '../../../../src/queue/redis/delta-reader.js';

const delta = (text: string) => ({ index: 0, text, tokenIds: [7], logprobs: null, finishReason: null });
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
