import { describe, expect, it } from 'vitest';
import { isGoverned, Prediction } from '../../../src/inference/prediction.js';
import type { GovernorFigures, Source } from '../../../src/protocol/governor-figures.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';

const ROUTERS = { routingK: 0, oldestBatch: Number.POSITIVE_INFINITY };
const FORECAST = {
  own: [{ firstId: 0, need: new Float32Array(4) }],
  behind: [],
  predicted: null,
  routingK: 0,
  oldestBatch: 3,
};

const GOVERNED = { tables: true, lookAhead: true };

interface Setup {
  predicts?: boolean;
  lookAheadLayers?: number;
  governed?: typeof GOVERNED;
}

function setup(more: Setup = {}) {
  const resident = new SharedFlag();
  const rest = new SharedFlag();
  const queue = { length: 0 };
  const changes: ({ source: Source } & GovernorFigures)[] = [];
  const time = { now: 0 };
  const prediction = new Prediction({
    predicts: true,
    lookAheadLayers: 0,
    governed: GOVERNED,
    ...more,
    queue,
    resident,
    rest,
    onChange: (source, figures) => changes.push({ source, ...figures }),
    clock: () => time.now,
  });
  /** Runs passes of 10 ms. Those with tables take `tables` times as long, those that look ahead `ahead` times. */
  const passes = (count: number, tables = 1, ahead = 1) => {
    for (let pass = 0; pass < count; pass++) {
      time.now += 10 * (prediction.rests ? 1 : tables) * (prediction.lookAheadLayers === 0 ? 1 : ahead);
      prediction.passEnded(0, 16, ROUTERS);
    }
  };
  return { prediction, resident, rest, queue, changes, time, passes };
}

describe('the governor', () => {
  const config = { governor: 'on', routing: 'exact' } as const;

  it('decides unless it is off or tables route', () => {
    expect(isGoverned(config)).toBe(true);
    expect(isGoverned({ ...config, governor: 'off' })).toBe(false);
    expect(isGoverned({ ...config, routing: 'predicted' })).toBe(false);
  });
});

describe('prediction on the inference thread', () => {
  it('rests where tables cost time, and tells the hash-building thread', () => {
    const { prediction, rest, changes, passes } = setup();
    passes(800, 1.2);
    expect([prediction.rests, rest.raised]).toEqual([true, true]);
    expect(changes.map(({ state }) => state)).toEqual(['resting']);
    expect(changes[0]!.gain!.mean).toBeCloseTo(-0.2, 5);
    expect(prediction.allowed(FORECAST)).toEqual({ ...ROUTERS, own: [], behind: [], predicted: null });
  });

  it('never takes tables from passes that they route, and does not measure those', () => {
    const { prediction, time, passes } = setup();
    passes(800, 1.2);
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
      prediction.took({ id: pass, madeMs: time.now });
      prediction.passFailed();
      time.now += 500;
      prediction.idled(time.now - 490, time.now);
      prediction.took({ id: pass, madeMs: time.now });
      prediction.passEnded(0, 16, ROUTERS);
    }
    expect(prediction.figures.tables.arms.predict.seconds).toBeCloseTo(0.05, 10);
  });

  it('measures idle time in which a batch was held up by tables of earlier ones', () => {
    const { prediction, time, passes } = setup();
    passes(16);
    for (let pass = 0; pass < 4; pass++) {
      time.now += 100;
      prediction.idled(time.now - 100, time.now);
      prediction.took({ id: pass, madeMs: time.now - 20 });
      time.now += 10;
      prediction.passEnded(0, 16, ROUTERS);
    }
    expect(prediction.figures.tables.arms.predict.seconds).toBeCloseTo(4 * 0.03, 10);
  });

  it('does not measure while batches from before a change of arm are queued', () => {
    const { prediction, queue, passes } = setup();
    queue.length = 3;
    passes(16 + 5);
    expect(prediction.rests).toBe(true);
    passes(10);
    expect(prediction.figures.tables.arms.rest.passes).toBe(0);
    for (let id = 0; id < 3; id++) prediction.took({ id, madeMs: 0 });
    passes(5);
    expect(prediction.figures.tables.arms.rest.passes).toBe(5);
  });

  it('measures no pass with tables that runs a batch which was taken while they rested', () => {
    const { prediction, queue, time, passes } = setup();
    while (!prediction.rests) passes(1);
    queue.length = 1;
    prediction.took({ id: 0, madeMs: 0 });
    while (prediction.rests) passes(1);
    const measured = () => prediction.figures.tables.arms.predict.passes;
    const before = measured();
    for (const id of [0, 1]) {
      prediction.took({ id, madeMs: 0 });
      for (let pass = 0; pass < 10; pass++) {
        time.now += 10;
        prediction.passEnded(0, 16, { routingK: 0, oldestBatch: id });
      }
    }
    expect(measured()).toBe(before);
    passes(5);
    expect(measured()).toBe(before + 5);
  });

  it.each([
    ['off', { predicts: false }],
    ['active', { governed: { tables: false, lookAhead: false } }],
  ] as const)('is %s with %j, and never rests', (state, options) => {
    const { prediction, rest, passes } = setup(options);
    passes(500, 2);
    expect([prediction.rests, rest.raised, prediction.figures.tables.state]).toEqual([false, false, state]);
    expect(prediction.figures.tables).toMatchObject({ on: false, gain: null, pauseSeconds: 0 });
  });

  it('is not needed while every expert has a slot, and measures anew when it is', () => {
    const { prediction, resident, rest, changes, passes } = setup();
    passes(800, 1.2);
    resident.raised = true;
    prediction.slotsChanged();
    passes(500, 1.2);
    expect([prediction.figures.tables.state, rest.raised]).toEqual(['not_needed', false]);
    resident.raised = false;
    prediction.slotsChanged();
    expect(changes.map(({ state }) => state)).toEqual(['resting', 'not_needed', 'probing']);
  });

  it('is off once no predictor could be opened', () => {
    const { prediction, changes } = setup();
    prediction.off();
    expect(prediction.figures.tables).toMatchObject({ on: false, state: 'off' });
    expect(changes.map(({ state }) => state)).toEqual(['off']);
  });
});

describe('looking ahead on the inference thread', () => {
  const ahead = { predicts: false, lookAheadLayers: 2 };

  it('is measured as tables are, and rests or goes on by itself', () => {
    const costs = setup(ahead);
    costs.passes(800, 1, 1.2);
    expect(costs.prediction.lookAheadLayers).toBe(0);
    expect(costs.changes.map(({ source, state }) => [source, state])).toEqual([['look_ahead', 'resting']]);
    const pays = setup(ahead);
    pays.passes(200, 1, 0.8);
    expect(pays.prediction.lookAheadLayers).toBe(2);
    const { look_ahead: figures, tables } = pays.prediction.figures;
    expect(figures).toMatchObject({ on: true, state: 'active' });
    expect(figures.gain!.mean).toBeCloseTo(0.2, 5);
    expect(tables).toMatchObject({ on: false, state: 'off', gain: null });
  });

  it('rests while a window of tables is open, and is measured while tables wait between pairs of windows', () => {
    const { prediction, changes, time } = setup({ lookAheadLayers: 1 });
    const turns: string[] = [];
    while (changes.length < 2) {
      const arms = `${prediction.rests ? '' : 'tables '}${prediction.lookAheadLayers === 0 ? '' : 'ahead'}`;
      if (turns.at(-1) !== arms) turns.push(arms);
      time.now += 10 * (prediction.rests ? 1 : 1.2) * (prediction.lookAheadLayers === 0 ? 1 : 0.8);
      prediction.passEnded(0, 16, ROUTERS);
    }
    expect(turns.slice(0, 3)).toEqual(['tables ', '', 'ahead']);
    expect(changes.map(({ source, state }) => [source, state])).toEqual([
      ['look_ahead', 'active'],
      ['tables', 'resting'],
    ]);
    expect(changes[0]!.gain!.mean).toBeCloseTo(0.2, 5);
    expect(changes[1]!.gain!.mean).toBeCloseTo(-0.2, 5);
    // Once it has a verdict, it keeps to it while tables are measured.
    expect(turns).toContain('tables ahead');
  });

  it('shortens the rest of tables between two pairs while it is measured', () => {
    const passesToVerdict = (lookAheadLayers: number) => {
      const { changes, passes } = setup({ lookAheadLayers });
      let count = 0;
      for (; !changes.some(({ source }) => source === 'tables'); count++) passes(1, 1.2, 0.8);
      return count;
    };
    const alone = passesToVerdict(0);
    expect(passesToVerdict(1)).toBeLessThan(1.2 * alone);
  });

  it('is never measured at the same time as tables, and each figure is its own', () => {
    const { prediction, changes, time } = setup({ lookAheadLayers: 1 });
    const both: string[] = [];
    for (let pass = 0; pass < 5000; pass++) {
      const before = [prediction.rests, prediction.lookAheadLayers === 0];
      time.now += 10 * (prediction.rests ? 1 : 0.8) * (prediction.lookAheadLayers === 0 ? 1 : 1.1);
      prediction.passEnded(0, 16, ROUTERS);
      const after = [prediction.rests, prediction.lookAheadLayers === 0];
      if (before[0] !== after[0] && before[1] !== after[1]) both.push(`pass ${pass}`);
    }
    expect(both).toEqual([]);
    expect(changes.slice(0, 2).map(({ source, state }) => [source, state])).toEqual([
      ['tables', 'active'],
      ['look_ahead', 'resting'],
    ]);
    const { tables, look_ahead: figures } = prediction.figures;
    expect(tables.gain!.mean).toBeCloseTo(0.2, 2);
    expect(figures.gain!.mean).toBeCloseTo(-0.1, 2);
  });

  it.each([
    ['off', { ...ahead, lookAheadLayers: 0 }, 0],
    ['active', { ...ahead, governed: { tables: true, lookAhead: false } }, 2],
  ] as const)('is %s with %j', (state, options, layers) => {
    const { prediction, passes } = setup(options);
    passes(500, 1, 2);
    expect(prediction.lookAheadLayers).toBe(layers);
    expect(prediction.figures.look_ahead).toMatchObject({ on: false, state, gain: null, pauseSeconds: 0 });
  });
});
