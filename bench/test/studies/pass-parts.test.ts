import { describe, expect, it } from 'vitest';
import type { TraceEvent, TraceFile } from '../../../dist/profile/chrome-trace.js';
import { passParts } from '../../src/studies/pass-parts.js';

const named = (tid: number, name: string): TraceEvent => {
  return { ph: 'M', name: 'thread_name', pid: 1, tid, args: { name } };
};
/** Times are milliseconds. */
const event = (tid: number, name: string, cat: string, begin: number, ms: number, bytes = 0): TraceEvent => {
  return { ph: 'X', name, cat, pid: 1, tid, ts: begin * 1000, dur: ms * 1000, args: { bytes } };
};

const trace = (dropped: number): TraceFile => ({
  displayTimeUnit: 'ms',
  otherData: { version: '0', model: 'm', beginNs: 0, seconds: 1, events: 12, dropped },
  traceEvents: [
    ...[named(1, 'inference'), named(2, 'hash building'), named(3, 'transfers')],
    event(1, 'idle', 'wait', 0, 500),
    event(1, 'table wait', 'wait', 500, 3),
    event(1, 'plan', 'plan', 503, 1),
    event(1, 'encoder pass', 'pass', 504, 100),
    event(1, 'route', 'router', 504, 4),
    event(1, 'plan', 'plan', 508, 5),
    event(1, 'moe', 'dispatch', 520, 52),
    event(1, 'stall', 'stall', 520, 20),
    event(1, 'experts', 'expert', 540, 30),
    event(1, 'self attention', 'attention', 575, 25),
    event(2, 'predict', 'predictor', 500, 40),
    event(3, 'on-demand transfer', 'transfer', 500, 60, 4096),
  ],
});

describe('the parts of a pass', () => {
  const { parts, passes, bytes } = passParts(trace(0));

  it('differ by what the inference thread did', () => {
    expect(parts.selection).toBeCloseTo(3 + 1 + 4 + 5);
    expect(parts.invocation).toBeCloseTo(30 + 2);
    expect(parts.communication).toBeCloseTo(20);
    expect(parts.rest).toBeCloseTo(100 - 9 - 32 - 20);
    expect([passes, bytes]).toEqual([1, 4096]);
  });

  it('add up to the passes and to what is selected between them', () => {
    const { selection, invocation, communication, rest } = parts;
    expect(selection + invocation + communication + rest).toBeCloseTo(100 + 1 + 3);
  });

  it('are refused where events are missing', () => {
    expect(() => passParts(trace(2))).toThrow('2 events of the profile were dropped');
  });
});
