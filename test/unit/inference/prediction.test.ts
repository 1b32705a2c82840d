import { describe, expect, it } from 'vitest';
import { isGoverned, Prediction } from '../../../src/inference/prediction.js';
import type { GovernorFigures } from '../../../src/protocol/governor-figures.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';

const ROUTERS = { routingK: 0 };
const FORECAST = {
  own: [{ firstId: 0, need: new Float32Array(4) }],
  behind: [],
  predicted: null,
  routingK: 0,
};

function setup(more: { predicts?: boolean; governed?: boolean } = {}) {
  const resident = new SharedFlag();
  const rest = new SharedFlag();
  const queue = { length: 0 };
  const changes: GovernorFigures[] = [];
  const time = { now: 0 };
  const prediction = new Prediction({
    predicts: true,
    governed: true,
    ...more,
    queue,
    resident,
    rest,
    onChange: (figures) => changes.push(figures),
    clock: () => time.now,
  });
  /** Runs passes of 10 ms, or of `slow` ms with tables. */
  const passes = (count: number, slow = 10) => {
    for (let pass = 0; pass < count; pass++) {
      time.now += prediction.rests ? 10 : slow;
      prediction.passEnded(0, 16, ROUTERS);
    }
  };
  return { prediction, resident, rest, queue, changes, time, passes };
}

describe('the governor', () => {
  const config = { governor: 'on', routing: 'exact', hashFunction: 'auto' } as const;

  it('decides unless it is off, tables route, or tables are those of a control', () => {
    expect(isGoverned(config)).toBe(true);
    expect(isGoverned({ ...config, hashFunction: 'token' })).toBe(true);
    expect(isGoverned({ ...config, governor: 'off' })).toBe(false);
    expect(isGoverned({ ...config, routing: 'predicted' })).toBe(false);
    for (const hashFunction of ['replay', 'shuffled'] as const)
      expect(isGoverned({ ...config, hashFunction })).toBe(false);
  });
});

describe('prediction on the inference thread', () => {
  it('rests where tables cost time, and tells the hash-building thread', () => {
    const { prediction, rest, changes, passes } = setup();
    passes(200, 12);
    expect([prediction.rests, rest.raised]).toEqual([true, true]);
    expect(changes.map(({ state }) => state)).toEqual(['resting']);
    expect(changes[0]!.gain!.mean).toBeCloseTo(-0.2, 5);
    expect(prediction.allowed(FORECAST)).toEqual({ own: [], behind: [], predicted: null, routingK: 0 });
  });

  it('never takes tables from passes that they route, and does not measure those', () => {
    const { prediction, time, passes } = setup();
    passes(200, 12);
    const routed = { ...FORECAST, routingK: 1 };
    expect(prediction.allowed(routed)).toBe(routed);
    const before = prediction.figures;
    time.now += 1e6;
    prediction.passEnded(0, 16, routed);
    expect(prediction.figures).toEqual(before);
  });

  it('measures waits and planning, but no idle time and no failed passes', () => {
    const { prediction, time, passes } = setup();
    passes(16);
    for (let pass = 0; pass < 5; pass++) {
      time.now += 1000;
      prediction.idled(time.now - 900, time.now);
      prediction.took({ madeMs: time.now });
      prediction.passFailed();
      time.now += 500;
      prediction.idled(time.now - 490, time.now);
      prediction.took({ madeMs: time.now });
      prediction.passEnded(0, 16, ROUTERS);
    }
    expect(prediction.figures.arms.predict.seconds).toBeCloseTo(0.05, 10);
  });

  it('measures idle time in which a batch was held up by tables of earlier ones', () => {
    const { prediction, time, passes } = setup();
    passes(16);
    for (let pass = 0; pass < 4; pass++) {
      time.now += 100;
      prediction.idled(time.now - 100, time.now);
      prediction.took({ madeMs: time.now - 20 });
      time.now += 10;
      prediction.passEnded(0, 16, ROUTERS);
    }
    expect(prediction.figures.arms.predict.seconds).toBeCloseTo(4 * 0.03, 10);
  });

  it('does not measure while batches from before a change of arm are queued', () => {
    const { prediction, queue, passes } = setup();
    queue.length = 3;
    passes(16 + 5);
    expect(prediction.rests).toBe(true);
    passes(10);
    expect(prediction.figures.arms.rest.passes).toBe(0);
    for (let batch = 0; batch < 3; batch++) prediction.took({ madeMs: 0 });
    passes(5);
    expect(prediction.figures.arms.rest.passes).toBe(5);
  });

  it.each([
    ['off', { predicts: false }],
    ['active', { governed: false }],
  ] as const)('is %s with %j, and never rests', (state, options) => {
    const { prediction, rest, passes } = setup(options);
    passes(500, 20);
    expect([prediction.rests, rest.raised, prediction.figures.state]).toEqual([false, false, state]);
    expect(prediction.figures).toMatchObject({ on: false, gain: null, pauseSeconds: 0 });
  });

  it('is not needed while every expert has a slot, and measures anew when it is', () => {
    const { prediction, resident, rest, changes, passes } = setup();
    passes(200, 12);
    resident.raised = true;
    prediction.slotsChanged();
    passes(500, 12);
    expect([prediction.figures.state, rest.raised]).toEqual(['not_needed', false]);
    resident.raised = false;
    prediction.slotsChanged();
    expect(changes.map(({ state }) => state)).toEqual(['resting', 'not_needed', 'probing']);
  });

  it('is off once no predictor could be opened', () => {
    const { prediction, changes } = setup();
    prediction.off();
    expect(prediction.figures).toMatchObject({ on: false, state: 'off' });
    expect(changes.map(({ state }) => state)).toEqual(['off']);
  });
});
