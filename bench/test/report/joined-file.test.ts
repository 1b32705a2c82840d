import { describe, expect, it } from 'vitest';
import { summarize } from '../../src/report/bench-file.js';
import { joinedFile } from '../../src/report/joined-file.js';
import { resultOf } from '../support/fixture.js';

const FILE = summarize(resultOf(), { fidelity: [], dependency: [], gating: null });
const [FIRST, SECOND] = FILE.measurements;

describe('the results of several runs', () => {
  const later = {
    ...FILE,
    measurements: [
      { ...FIRST!, wallMs: 1 },
      { ...SECOND!, name: 'switch-words/words/25%/disk/lru' },
    ],
    comparisons: 2,
    seconds: 5,
  };
  const joined = joinedFile([FILE, later]);

  it('have each measurement once, as the later run has it', () => {
    const names = joined.measurements.map(({ name }) => name);
    expect(names).toEqual([...FILE.measurements.map(({ name }) => name), 'switch-words/words/25%/disk/lru']);
    expect(joined.measurements[0]!.wallMs).toBe(1);
  });

  it('add up what was compared and how long it took', () => {
    expect(joined.comparisons).toBe(FILE.comparisons + 2);
    expect(joined.seconds).toBe(FILE.seconds + 5);
  });

  it('keep the facts of texts that only one of them has', () => {
    const { model, ...facts } = FILE.models[0]!;
    const other = { ...FILE, models: [{ model, ...facts, data: { words: facts.data.sst2! } }] };
    expect(Object.keys(joinedFile([FILE, other]).models[0]!.data)).toEqual(['sst2', 'words']);
  });
});
