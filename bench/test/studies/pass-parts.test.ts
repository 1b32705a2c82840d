import { describe, expect, it } from 'vitest';
import type { ProfileSummary } from '../../../dist/profile/summary.js';
import { passParts } from '../../src/studies/pass-parts.js';

type Op = ProfileSummary['ops'][number];

const op = (
  name: string,
  category: string,
  selfMs: number,
  shareOfPasses: number | null,
  thread = 'inference',
): Op => ({
  ...{ thread, name, category, count: 1, totalMs: selfMs, selfMs, shareOfPasses },
  ...{ p50Ms: selfMs, p99Ms: selfMs },
});

describe('the parts of a pass', () => {
  const ops = [
    op('route', 'router', 4, 0.04),
    op('plan', 'plan', 6, 0.05),
    op('table wait', 'wait', 3, null),
    op('idle', 'wait', 500, null),
    op('experts', 'expert', 30, 0.3),
    op('moe', 'dispatch', 2, 0.02),
    op('combine', 'dispatch', 1, 0.01),
    op('stall', 'stall', 20, 0.2),
    op('self attention', 'attention', 25, 0.25),
    op('predict', 'predictor', 40, null, 'hash building'),
    op('demand transfer', 'transfer', 60, null, 'transfers'),
  ];

  it('are told apart by what the inference thread did', () => {
    const parts = passParts({ passes: { count: 1, ms: 100 }, ops });
    expect(parts.selection).toBeCloseTo(4 + 6 + 3);
    expect(parts.invocation).toBeCloseTo(33);
    expect(parts.communication).toBeCloseTo(20);
    expect(parts.rest).toBeCloseTo(100 - 9 - 33 - 20);
  });

  it('add up to the passes and to what is selected between them', () => {
    const { selection, invocation, communication, rest } = passParts({ passes: { count: 1, ms: 100 }, ops });
    // Of the plan 1 ms lies between passes, and all of the wait.
    expect(selection + invocation + communication + rest).toBeCloseTo(100 + 1 + 3);
  });
});
