import { afterEach, describe, expect, it } from 'vitest';
import { EVICTION_POLICIES } from '../../../src/inference/eviction/index.js';
import { PassPlanner } from '../../../src/inference/pass-planner.js';
import type { RunStats } from '../../../src/native/addon-types.js';
import type { ExpectedVisit } from '../../../src/predictor/expected-visits.js';
import { fillNeed } from '../../../src/predictor/expert-need.js';
import type { PassForecast } from '../../../src/predictor/pass-forecast.js';
import { createHashTable, TABLE_READY } from '../../../src/protocol/hash-table.js';
import { createQueue, QueueConsumer, QueueProducer } from '../../../src/protocol/hash-table-queue.js';
import type { QueuedBatch } from '../../../src/protocol/inference-messages.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';
import { residencyOf } from './residency-fixture.js';
import { ScriptedEngine } from './scripted-native-engine.js';

let close = () => {};
afterEach(() => close());

/** An engine of 2 layers with 4 experts each, all absent, and `slots` slots. */
class SmallEngine extends ScriptedEngine {
  slots = 4;

  override usage() {
    return { ...super.usage(), slots: this.slots };
  }

  override residency() {
    return residencyOf(Array.from({ length: 8 }, () => ({ state: 0 })));
  }
}

function setup() {
  const engine = new SmallEngine(8);
  const { producer, consumer } = createQueue(4);
  close = () => producer.port.close();
  const queue = new QueueProducer<QueuedBatch>(producer);
  const resident = new SharedFlag();
  const planner = new PassPlanner({
    engine,
    policy: EVICTION_POLICIES['farthest-next-use'],
    queue: new QueueConsumer<QueuedBatch>(consumer),
    resident,
    linkBandwidth: 0,
  });
  const put = (expert: number, ready = true) => {
    const table = createHashTable({
      batchId: 1,
      layers: 1,
      tokens: 1,
      k: 1,
      expertsPerLayer: 4,
    });
    table.experts[0] = expert;
    table.chance[0] = 1;
    fillNeed(table);
    if (ready) table.settle(TABLE_READY);
    queue.put({ batch: {} as never, tables: [table.buffer, null] });
    return table;
  };
  return { engine, resident, planner, put };
}

const visit = (firstId: number, index: number): ExpectedVisit => {
  const need = new Float32Array(4);
  need[index] = 1;
  return { firstId, need };
};
/** A finished pass of one layer of four experts; `needed` lists the experts that it needed. */
const ran = (...needed: number[]) => ({
  stats: {
    ...{ bytesMoved: 0, diskBytes: 0, passNs: 1e6, stallNs: 0 },
    ...{ prefetchesBegun: 0, prefetched: 0, late: 0, onDemand: 0 },
  } as RunStats,
  layers: Int32Array.of(0),
  found: Uint8Array.from({ length: 4 }, (_, index) => (needed.includes(index) ? 1 : 0)),
});

/** The plan of a pass of prompts that the routers route. */
const plan = (planner: PassPlanner, known: Pick<PassForecast, 'own' | 'behind'>) =>
  planner.plan({ ...known, routingK: 0 }, 'prompts');

describe('pass planner', () => {
  it('plans with the pass, the later passes of its batch, and the ready tables in the queue', () => {
    const { planner, put } = setup();
    put(2);
    put(3, false);
    put(3);
    const { loads, keys } = structuredClone(plan(planner, { own: [visit(0, 1)], behind: [visit(4, 0)] })!);
    expect([...loads]).toEqual([1, 4, 2]);
    expect([...plan(planner, { own: [visit(4, 0)], behind: [] })!.loads]).toEqual([4, 2]);
    expect([keys[1], keys[4], keys[2], keys[3]]).toEqual([0, 1, 2, 3]);
  });

  it('reads a table that waits until it is finished, and then once', () => {
    const { planner, put } = setup();
    const loads = () => [...plan(planner, { own: [], behind: [] })!.loads];
    const table = put(2, false);
    expect(loads()).toEqual([]);
    table.settle(TABLE_READY);
    expect(loads()).toEqual([2]);
    // Nothing could open it now.
    new Uint32Array(table.buffer)[0] = 0;
    expect(loads()).toEqual([2]);
  });

  it('plans nothing while every expert has a slot, and follows the budget', () => {
    const { engine, resident, planner } = setup();
    expect([resident.raised, planner.needsForecast]).toEqual([false, true]);
    engine.slots = 8;
    planner.slotsChanged();
    expect([resident.raised, planner.needsForecast, plan(planner, { own: [], behind: [] })]).toEqual([
      true,
      false,
      null,
    ]);
    engine.slots = 3;
    planner.slotsChanged();
    expect(planner.needsForecast).toBe(true);
  });

  it('learns to prefetch an expert that is always needed, whatever the tables predict', () => {
    const { planner } = setup();
    const own = [visit(0, 1)];
    expect([...plan(planner, { own, behind: [] })!.loads]).toEqual([1]);
    expect(planner.tableWeight).toBe(1);
    for (let i = 0; i < 100; i++) planner.judge(ran(2), own, 'prompts');
    expect([...plan(planner, { own: [visit(0, 1)], behind: [] })!.loads]).toEqual([2]);
    expect(planner.tableWeight).toBeLessThan(0.5);
  });

  it('tells what forecasts save, by passes that run without theirs now and then', () => {
    const { planner } = setup();
    const result = ran(1);
    const pass = (own: ExpectedVisit[]) => {
      const { loads } = plan(planner, { own, behind: [] })!;
      const forecast = loads.length > 0;
      Object.assign(result.stats, { prefetched: 1, late: 1, stallNs: forecast ? 2e6 : 8e6 });
      planner.judge(result, own, 'prompts');
      return forecast;
    };
    expect(pass([visit(0, 1)])).toBe(true);
    // Nothing is known yet of passes without a forecast.
    expect(planner.takeSaved('prompts')).toBeUndefined();
    const used = Array.from({ length: 70 }, () => pass([visit(0, 1)]));
    expect(used.filter((each) => !each).length).toBe(2);
    planner.takeSaved('prompts');
    pass([visit(0, 1)]);
    pass([visit(0, 1)]);
    expect(planner.takeSaved('prompts')).toBeCloseTo(0.012, 6);
    expect(planner.takeSaved('prompts')).toBeUndefined();
    pass([]);
    expect(planner.takeSaved('prompts')).toBeUndefined();
    expect(planner.takeSaved('steps')).toBeUndefined();
  });
});
