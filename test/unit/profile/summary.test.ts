import { describe, expect, it } from 'vitest';
import { summarize } from '../../../src/profile/summary.js';
import { timelineOf } from '../../../src/profile/timeline.js';
import { TWO_PASSES, trace } from './trace-fixture.js';

describe('the events of a thread', () => {
  it('have a parent and a self time', () => {
    const spans = timelineOf(TWO_PASSES).lanes.find(({ name }) => name === 'inference')!.spans;
    const found = spans.map(({ name, parent, selfMs }) => [name, parent?.name ?? null, selfMs]);
    expect(found).toEqual([
      ['batch', null, 1],
      ['plan', 'batch', 1],
      ['encoder pass', 'batch', 2],
      ['layer', 'encoder pass', 3],
      ['stall', 'layer', 3],
      ['expert', 'layer', 2],
      ['encoder pass', null, 4],
    ]);
  });

  it('are refused when they overlap', () => {
    const torn = trace({ 1: 'inference' }, [
      [1, 'encoder pass', 'pass', 0, 5],
      [1, 'layer', 'layer', 4, 6],
    ]);
    expect(() => timelineOf(torn)).toThrow(/layer at 4 ms ends after the encoder pass around it/);
  });
});

describe('a summary', () => {
  const summary = summarize(timelineOf(TWO_PASSES));

  it('counts passes and their stalls', () => {
    expect(summary.passes).toEqual({ count: 2, ms: 14 });
    expect(summary.stall).toEqual({ ms: 3, shareOfPasses: 3 / 14 });
  });

  it('separates transfers behind compute from those that a pass waited for', () => {
    const { count, bytes, ms, behindCompute, whileStalled, betweenPasses } = summary.transfers;
    expect([count, bytes, ms]).toEqual([2, 8192, 9]);
    expect(behindCompute).toBeCloseTo(4 / 9);
    expect(whileStalled).toBeCloseTo(3 / 9);
    expect(betweenPasses).toBeCloseTo(2 / 9);
  });

  it('reports the share of hash building that overlaps passes', () => {
    expect(summary.tables).toEqual({ count: 1, ms: 2, shareOfPasses: 2 / 14, besidePasses: 0.5 });
  });

  it('reports self times of ops, which add up to the time of the passes', () => {
    const inPasses = summary.ops.filter(({ shareOfPasses }) => shareOfPasses !== null);
    expect(inPasses.map(({ name }) => name).sort()).toEqual(['encoder pass', 'expert', 'layer', 'stall']);
    expect(inPasses.reduce((sum, { shareOfPasses }) => sum + shareOfPasses!, 0)).toBeCloseTo(1);
    const encode = summary.ops.find(({ name }) => name === 'encoder pass')!;
    expect(encode).toMatchObject({ count: 2, totalMs: 14, selfMs: 6, p50Ms: 4, p99Ms: 10 });
  });

  it('reports shares of 0 for an empty profile', () => {
    const empty = summarize(timelineOf(trace({}, [])));
    expect(empty).toMatchObject({ passes: { count: 0, ms: 0 }, stall: { shareOfPasses: 0 }, ops: [] });
    expect(empty.transfers.behindCompute).toBe(0);
  });
});
