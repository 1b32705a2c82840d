import { afterEach, describe, expect, it } from 'vitest';
import { clockMs } from '../../../src/clock.js';
import { PassPlanner } from '../../../src/inference/pass-planner.js';
import type { RunStats, TableNeeds } from '../../../src/native/addon-types.js';
import { createQueue, QueueConsumer, QueueProducer } from '../../../src/protocol/batch-queue.js';
import { BuilderStats } from '../../../src/protocol/builder-stats.js';
import { createHashTable, TABLE_READY } from '../../../src/protocol/hash-table.js';
import type { QueuedBatch } from '../../../src/protocol/inference-messages.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';
import { ScriptedEngine } from '../scheduler/scripted-native-engine.js';

let close = () => {};
afterEach(() => close());

/** An engine of 2 layers with 4 experts each, and `slots` slots. */
class SmallEngine extends ScriptedEngine {
  slots = 4;

  override usage() {
    return { ...super.usage(), slots: this.slots };
  }
}

function setup() {
  const engine = new SmallEngine(8);
  const { producer, consumer } = createQueue(4);
  close = () => producer.port.close();
  const queue = new QueueProducer<QueuedBatch>(producer);
  const resident = new SharedFlag();
  const builderStats = new BuilderStats();
  const planner = new PassPlanner({
    engine,
    queue: new QueueConsumer<QueuedBatch>(consumer),
    resident,
    builderStats,
    linkBandwidth: 0,
  });
  /** Queues a batch with a table of the encoder's layer, which needs this expert. */
  const put = (expert: number, ready = true) => {
    const table = createHashTable({ batchId: 1, layers: 1, tokens: 1, k: 1, expertsPerLayer: 4 });
    table.need[expert] = 1;
    if (ready) table.settle(TABLE_READY);
    queue.put({ batch: {} as never, tables: [table.buffer, null] });
    return table;
  };
  return { engine, resident, builderStats, planner, put };
}

const needs = (id: number): TableNeeds => ({
  id,
  layer: 0,
  need: Float32Array.of(0, 1, 0, 0),
});
const NOTHING = { own: [], behind: [], routingK: 0 };
const pass = (...own: TableNeeds[]) => ({ ...NOTHING, own });
/** A finished pass of one layer. */
const ran = (stats: Partial<RunStats> = {}) => ({
  stats: {
    ...{ bytesMoved: 0, diskBytes: 0, passNs: 1e6 + (stats.stallNs ?? 0), stallNs: 0, peerWaitNs: 0 },
    ...{ needed: 0, prefetchesBegun: 0, onDemand: 0 },
    ...stats,
  } as RunStats,
  layers: Int32Array.of(0),
});

describe('pass planner', () => {
  it('tells of the pass, the later passes of its batch, and the ready tables in the queue', () => {
    const { planner, put } = setup();
    put(2);
    put(3, false);
    put(3);
    const { own, behind, upcoming } = planner.needs({ ...pass(needs(1)), behind: [needs(2)] }, 'prompts')!;
    expect([own, behind]).toEqual([[needs(1)], [needs(2)]]);
    expect(upcoming.map((tables) => tables.map(({ need }) => [...need]))).toEqual([
      [[0, 0, 1, 0]],
      [],
      [[0, 0, 0, 1]],
    ]);
  });

  it('reads a table that waits until it is finished, and then once', () => {
    const { planner, put } = setup();
    const read = () => planner.needs(NOTHING, 'prompts')!.upcoming[0]!.length;
    const table = put(2, false);
    expect(read()).toBe(0);
    table.settle(TABLE_READY);
    expect(read()).toBe(1);
    // Nothing could open it now.
    new Uint32Array(table.buffer)[0] = 0;
    expect(read()).toBe(1);
  });

  it('plans nothing while every expert has a slot, and follows the budget', () => {
    const { engine, resident, planner } = setup();
    expect([resident.raised, planner.needsForecast]).toEqual([false, true]);
    engine.slots = 8;
    planner.slotsChanged();
    const state = () => [resident.raised, planner.needsForecast, planner.needs(NOTHING, 'prompts')];
    expect(state()).toEqual([true, false, null]);
    engine.slots = 3;
    planner.slotsChanged();
    expect(planner.needsForecast).toBe(true);
  });

  it('plans without forecasts while prediction is switched off', () => {
    const { builderStats, planner } = setup();
    builderStats.offUntilMs = Number.POSITIVE_INFINITY;
    expect(planner.needsForecast).toBe(false);
    expect(planner.needs(NOTHING, 'prompts')).not.toBeNull();
    builderStats.offUntilMs = clockMs() - 1;
    expect(planner.needsForecast).toBe(true);
  });

  it('tells what forecasts save, by runs of passes without theirs', () => {
    const { engine, planner } = setup();
    const run = (stallNs: number, ...own: TableNeeds[]) => {
      const { control } = planner.needs(pass(...own), 'prompts')!;
      planner.judge(ran({ needed: 2, stallNs }), 'prompts', 5);
      return control;
    };
    const runs = (count: number, stallNs: number) =>
      Array.from({ length: count }, () => run(stallNs, needs(1))).filter((control) => control).length;
    expect(runs(63, 2e6)).toBe(0);
    // Nothing is known yet of passes without a forecast.
    expect(planner.takeSaved('prompts')).toBeUndefined();
    // The first of them run with what forecasts left in memory.
    expect(runs(16, 50e6)).toBe(16);
    expect(runs(16, 8e6)).toBe(16);
    expect(planner.takeSaved('prompts')).toBeUndefined();
    expect(runs(2, 2e6)).toBe(0);
    expect(planner.takeSaved('prompts')).toBeCloseTo(0.012, 6);
    expect(planner.takeSaved('prompts')).toBeUndefined();
    expect(runs(990, 2e6)).toBe(0);
    expect(runs(32, 8e6)).toBe(32);
    run(2e6);
    planner.takeSaved('prompts');
    run(2e6);
    expect(planner.takeSaved('prompts')).toBeUndefined();
    expect(planner.takeSaved('steps')).toBeUndefined();
    // A request that changes nothing, such as one for the usage, forgets nothing.
    planner.slotsChanged();
    runs(1, 2e6);
    expect(planner.takeSaved('prompts')).toBeCloseTo(0.006, 3);
    // A budget of another size has other waits.
    engine.slots = 3;
    planner.slotsChanged();
    runs(1, 2e6);
    expect(planner.takeSaved('prompts')).toBeUndefined();
  });

  it('counts what loads take from computing, by passes of about as many tokens', () => {
    const { planner } = setup();
    const run = (computeNs: number, tokens: number) => {
      planner.needs(pass(needs(1)), 'prompts');
      planner.judge(ran({ needed: 2, passNs: computeNs + 1e6, stallNs: 1e6 }), 'prompts', tokens);
    };
    for (let count = 0; count < 95; count += 1) run(3e6, 30);
    expect(planner.takeSaved('prompts')).toBeUndefined();
    run(5e6, 20);
    expect(planner.takeSaved('prompts')).toBeCloseTo(-0.003, 6);
    // No control of that size has run.
    run(5e6, 200);
    expect(planner.takeSaved('prompts')).toBeCloseTo(0, 6);
  });
});
