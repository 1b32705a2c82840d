import { describe, expect, it } from 'vitest';
import type { RecordedPass } from '../../src/replay/routing-trace.js';
import { scoredBatches } from '../../src/replay/scored-batches.js';

const pass = (phase: RecordedPass['phase'], tokens: number, ...visits: number[][]): RecordedPass => ({
  ...{ phase, tokens, visits },
  choices: visits.map((ids) => ids.map(() => 1)),
});

describe('scoredBatches', () => {
  it('joins the records of a text: its own pass once, and one pass that needs what its labels need', () => {
    const text = (id: number) => pass('prefill', 3, [id], [8 + id]);
    const records = [
      { passes: [text(1), pass('decode', 1, [16], [24]), pass('decode', 1, [17], [25])] },
      { passes: [text(1), pass('decode', 1, [16], [24]), pass('decode', 1, [16], [27])] },
      { passes: [text(2), pass('decode', 1, [18], [24])] },
      { passes: [text(2), pass('decode', 1, [18], [24])] },
    ];
    expect(scoredBatches(records, 2)).toEqual([
      {
        passes: [
          text(1),
          {
            ...pass('decode', 4, [16, 17], [24, 25, 27]),
            choices: [
              [3, 1],
              [2, 1, 1],
            ],
          },
        ],
      },
      {
        passes: [text(2), { ...pass('decode', 2, [18], [24]), choices: [[2], [2]] }],
      },
    ]);
  });
});
