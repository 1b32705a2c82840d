import { describe, expect, it } from 'vitest';
import type { TraceEvent } from '../../../dist/profile/chrome-trace.js';
import { passParts } from '../../src/studies/pass-parts.js';

const INFERENCE = 7;

const event = (name: string, cat: string, ts: number, dur: number, tid = INFERENCE): TraceEvent => ({
  ...{ ph: 'X', name, cat, pid: 1, tid, ts: 1000 * ts, dur: 1000 * dur },
});

describe('the parts of a pass', () => {
  const traceEvents: TraceEvent[] = [
    { ph: 'M', name: 'thread_name', pid: 1, tid: INFERENCE, args: { name: 'inference' } },
    event('plan', 'plan', 0, 6),
    event('table wait', 'wait', 6, 3),
    event('idle', 'wait', 9, 500),
    event('pass', 'pass', 1000, 100),
    event('route', 'router', 1000, 4),
    event('moe', 'dispatch', 1010, 55),
    event('experts', 'expert', 1011, 30),
    event('stall', 'stall', 1042, 20),
    event('self attention', 'attention', 1070, 25),
    event('predict', 'predictor', 1000, 40, 8),
    event('demand transfer', 'transfer', 1042, 60, 9),
  ];
  const parts = passParts({ traceEvents });

  it('are told apart by what the inference thread did', () => {
    expect(parts).toEqual({
      selection: 6 + 3 + 4,
      invocation: 55 - 20,
      communication: 20,
      rest: 100 - 4 - 55,
    });
  });

  it('add up to the passes and to what is selected between them', () => {
    const { selection, invocation, communication, rest } = parts;
    expect(selection + invocation + communication + rest).toBe(100 + 6 + 3);
  });
});
