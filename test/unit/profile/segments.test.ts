import { describe, expect, it } from 'vitest';
import { defaultWindow, drawTimeline } from '../../../src/profile/picture.js';
import { segmentsOf } from '../../../src/profile/segments.js';
import { timelineOf } from '../../../src/profile/timeline.js';
import { TWO_PASSES } from './trace-fixture.js';

const timeline = timelineOf(TWO_PASSES);
const lane = (name: string) => timeline.lanes.find((each) => each.name === name)!;
const shown = (name: string, begin: number, end: number, gapMs = 0) =>
  segmentsOf(lane(name), { begin, end }, gapMs).map((s) => [s.group, s.begin, s.end]);

describe('segments', () => {
  it('show the innermost event at each moment, once', () => {
    expect(shown('inference', 0, 24)).toEqual([
      ['plan, reply', 0, 1],
      ['other ops', 1, 3],
      ['stall: waits for an expert', 3, 6],
      ['experts', 6, 8],
      ['other ops', 8, 11],
      ['plan, reply', 11, 12],
      ['other ops', 20, 24],
    ]);
  });

  it('end with the window', () => {
    expect(shown('inference', 4, 7)).toEqual([
      ['stall: waits for an expert', 4, 6],
      ['experts', 6, 7],
    ]);
  });

  it('are merged across small gaps, except for transfers', () => {
    expect(shown('hash building', 0, 24)).toEqual([['hash table', 19, 21]]);
    expect(shown('transfers', 0, 24, 5).length).toBe(2);
  });
});

describe('the picture', () => {
  it('shows the batch of median length and the pass after it', () => {
    expect(defaultWindow(timeline)).toEqual({ begin: 0, end: 24 });
  });

  it('has a lane for each thread, its passes and a legend', async () => {
    const svg = await drawTimeline(timeline, { begin: 0, end: 24 });
    for (const text of [
      'hash building thread',
      'inference thread',
      'transfers',
      'encoder pass, 5 tokens',
      'prefetch',
    ]) {
      expect(svg).toContain(`>${text}<`);
    }
    expect(svg).toContain('2 transfers, 8.00 KiB; 44 % of their time lies behind compute');
  });
});
