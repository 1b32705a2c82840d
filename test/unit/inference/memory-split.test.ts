// How the device is shared between KV pages and experts.
import { expect, it } from 'vitest';
import { memorySplit } from '../../../src/inference/engine-control.js';
import { ABSENT, type Engine, LOADING, RESIDENT } from '../../../src/native/addon-types.js';
import { RECURRENT } from '../../../src/scheduler/page-need.js';

function engine(usage: Partial<ReturnType<Engine['usage']>>, block = 100): Engine {
  return {
    shape: { firstExperts: [0, 3, 6] },
    plan: {
      ...{ slot: 100, block, blockBytes: [70, 100], expertBytes: 600, tokenDemand: 200 },
      ...{ driver: 7, dense: 30, routers: 10, workspace: 20 },
    },
    usage: () => ({ kvPages: 10, kvPagesFree: 4, kvPageBytes: 1000, kvWindows: [], slots: 5, ...usage }),
    residency: () => ({ state: Uint8Array.of(RESIDENT, ABSENT, RESIDENT, LOADING, RESIDENT, ABSENT) }),
  } as unknown as Engine;
}

it('tells used, cached and free pages apart, and experts by the size of their layer', () => {
  expect(memorySplit(engine({}), { pages: 2, states: 0 })).toEqual({
    driver: 7,
    dense: 40,
    workspace: 20,
    kv: { used: 4000, cached: 2000, free: 4000 },
    experts: { slots: 500, resident: 2 * 70 + 100, all: 600, token: 200 },
  });
});

it('counts the pages of layers with a window by their own size', () => {
  const kvWindows = [{ window: 33, pages: 4, pagesFree: 1, pageBytes: 10 }];
  const { kv } = memorySplit(engine({ kvWindows }), { pages: 0, states: 0 });
  expect(kv).toEqual({ used: 6030, cached: 0, free: 4010 });
});

it('counts kept recurrent states by their own size', () => {
  const kvWindows = [{ window: RECURRENT, pages: 4, pagesFree: 1, pageBytes: 10 }];
  const { kv } = memorySplit(engine({ kvWindows }), { pages: 1, states: 2 });
  expect(kv).toEqual({ used: 5010, cached: 1020, free: 4010 });
});

it('counts a resident expert with the pages of its slot, which may be larger than the expert', () => {
  expect(memorySplit(engine({}, 50), { pages: 0, states: 0 }).experts.resident).toBe(2 * (2 * 70 + 100));
});
