import { expect, it } from 'vitest';
import { NO_PARENT } from '../../../src/native/addon-types.js';
import { SeenTokens } from '../../../src/scheduler/generation.js';
import { passBatch } from '../../../src/scheduler/pass-batch.js';

const penalties = { presence: 0.5, frequency: 0.25, repetition: 1, biases: [] };

it('counts generated tokens, and the tokens of the prompt for the repetition penalty only', () => {
  const seen = new SeenTokens(penalties, [5, 6]);
  for (const id of [7, 5, 7]) seen.add(id);
  expect(seen.counts).toEqual({ ids: Int32Array.of(7, 5), times: Uint32Array.of(2, 1) });
  const repeated = new SeenTokens({ ...penalties, repetition: 1.5 }, [5, 6, 5]);
  repeated.add(6);
  expect(repeated.counts).toEqual({ ids: Int32Array.of(5, 6), times: Uint32Array.of(0, 1) });
});

it('counts more tokens than it had room for', () => {
  const ids = Array.from({ length: 100 }, (_, at) => 3 * at);
  const seen = new SeenTokens({ ...penalties, repetition: 1.5 }, ids);
  for (const id of ids.filter((each) => each % 2 === 0)) seen.add(id);
  expect(Array.from(seen.counts.ids)).toEqual(ids);
  expect(Array.from(seen.counts.times)).toEqual(ids.map((id) => 1 - (id % 2)));
});

it('counts every new token once while its arrays grow', () => {
  const seen = new SeenTokens(penalties, []);
  const ids = Array.from({ length: 100 }, (_, at) => 7 * at);
  for (const id of ids) seen.add(id);
  expect(seen.counts).toEqual({ ids: Int32Array.from(ids), times: new Uint32Array(100).fill(1) });
});

it('counts nothing without penalties', () => {
  for (const adjustments of [
    undefined,
    { presence: 0, frequency: 0, repetition: 1, biases: [[3, 1] as [number, number]] },
  ]) {
    const seen = new SeenTokens(adjustments, [5]);
    seen.add(6);
    expect(seen.counts.ids).toHaveLength(0);
  }
});

it('gives a pass the tokens of each pick, and none to picks without penalties', () => {
  const pick = { sampling: null, position: 3, top: 0 };
  const sequence = { job: 1, parent: NO_PARENT, tokens: [4] };
  const adjusted = {
    ...penalties,
    repetition: 2,
    biases: [[9, -1]] as [number, number][],
    seen: { ids: Int32Array.of(5, 7), times: Uint32Array.of(0, 2) },
  };
  const { picks } = passBatch(0, [
    { ...sequence, sequence: 1, picks: [pick] },
    { ...sequence, sequence: 2, picks: [{ ...pick, adjustments: adjusted }, pick] },
  ]);
  expect(picks?.adjustments).toEqual({
    presence: Float64Array.of(0, 0.5, 0),
    frequency: Float64Array.of(0, 0.25, 0),
    repetition: Float64Array.of(1, 2, 1),
    seen: Int32Array.of(5, 7),
    generated: Uint32Array.of(0, 2),
    seenEnds: Uint32Array.of(0, 2, 2),
    biased: Int32Array.of(9),
    biases: Float64Array.of(-1),
    biasedEnds: Uint32Array.of(0, 1, 1),
  });
  expect(passBatch(0, [{ ...sequence, sequence: 1, picks: [pick] }]).picks).not.toHaveProperty('adjustments');
});
