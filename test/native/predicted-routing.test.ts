import { spawnSync } from 'node:child_process';
import { cpSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { routingToNothing } from '../../src/evaluation/routings.js';
import type { NativeBatch, NativeRouting } from '../../src/native/addon-types.js';
import { addon, fresh, MINI, NO_TIERS, openEngine, packOf, passOf, REPO, thrown } from './fixture.js';

const pack = await packOf(MINI);
const predicted = { maxBatchTokens: 64, kvTokens: 128, threads: 2, maxRoutingK: 3, routers: false };
// switch-mini has 64 experts in each of the two MoE layers of its encoder.
const LAYERS = 2;
const EXPERTS = 64;
const IDS = Array.from({ length: 40 }, (_, i) => 5 + i * 11);

const open = (limits: object = {}, share = 1, own = pack) =>
  openEngine(own, { ...predicted, ...limits }, share);

/** A routing that spreads the tokens over the experts. The entries of a token are different experts. */
function routing(k: number): NativeRouting {
  const count = LAYERS * IDS.length * k;
  return {
    k,
    experts: Uint16Array.from({ length: count }, (_, i) => (Math.floor(i / k) * 7 + (i % k) * 21) % EXPERTS),
    alpha: Float32Array.from({ length: count }, (_, i) => ((i * 37) % 100) / 100),
  };
}

const encode = (extra: object = {}): NativeBatch => passOf(IDS, 1, { hiddenStates: true, ...extra });

describe('a batch with its own routing', () => {
  it('gives the same bits from shared memory, at the smallest budget, and with routers on the device', () => {
    const table = routing(3);
    const shared = {
      k: 3,
      experts: new Uint16Array(new SharedArrayBuffer(table.experts.byteLength)),
      alpha: new Float32Array(new SharedArrayBuffer(table.alpha.byteLength)),
    };
    shared.experts.set(table.experts);
    shared.alpha.set(table.alpha);
    const states: Float32Array[] = [];
    for (const [limits, share, given] of [
      [{}, 1, table],
      [{}, 0, shared],
      [{ routers: true }, 0.5, table],
    ] as const) {
      const engine = open(limits, share);
      states.push(engine.runBatch(encode({ routing: given }), null).hiddenStates!);
      engine.close();
    }
    expect(states[1]).toEqual(states[0]);
    expect(states[2]).toEqual(states[0]);
  });

  it('gives the same bits on every instruction set', () => {
    const budgetBytes = addon.planMemory({ pack }, predicted).resident;
    const table = routing(3);
    const script = `import('${REPO}/dist/native/addon.js').then(({ loadAddon }) => {
      const engine = new (loadAddon().Engine)(${JSON.stringify({ pack, budgetBytes, ...NO_TIERS, ...predicted })});
      const run = engine.runBatch({
        stack: 0, sequences: Int32Array.of(1), offsets: Int32Array.of(0, ${IDS.length}),
        tokens: Int32Array.from(${JSON.stringify(IDS)}), hiddenStates: true,
        routing: { k: 3, experts: Uint16Array.from([${table.experts}]), alpha: Float32Array.from([${table.alpha}]) },
      }, null, () => new Uint32Array());
      console.log(loadAddon().cpuFeatures().isa + ' ' + Buffer.from(run.hiddenStates.buffer).toString('base64'));
    })`;
    const answers = ['scalar', 'avx2', 'avx512'].map((isa) => {
      const child = spawnSync(process.execPath, ['-e', script], {
        env: { ...process.env, SIDA_ISA: isa },
        encoding: 'utf8',
        maxBuffer: 1 << 24,
      });
      expect(child.status, child.stderr).toBe(0);
      return child.stdout.trim().split(' ') as [string, string];
    });
    expect(answers[0]![0]).toBe('scalar');
    for (const [isa, states] of answers) expect(states === answers[0]![1], isa).toBe(true);
  });
});

describe('a malformed routing', () => {
  const bad = (change: object) => ({ ...routing(2), ...change });
  it.each<[string, unknown, RegExp]>([
    ['is no object', 7, /"routing" to be an object/],
    ['has no k', bad({ k: undefined }), /"k" to be a whole number/],
    ['has a k of 0', bad({ k: 0 }), /"k" to be a whole number from 1 to 64/],
    ['has a broken k', bad({ k: 1.5 }), /"k" to be a whole number/],
    ['has experts of another type', bad({ experts: new Uint32Array(160) }), /"experts" to be a typed array/],
    ['has alphas of another type', bad({ alpha: new Float64Array(160) }), /"alpha" to be a typed array/],
  ])('that %s is refused and leaves nothing behind', (_, table, message) => {
    const engine = open();
    const pages = engine.usage().kvPagesFree;
    const error = thrown(() => engine.runBatch(encode({ routing: table }), null));
    expect([error.code, error.message]).toEqual(['invalid_request', expect.stringMatching(message)]);
    expect(engine.usage().kvPagesFree).toBe(pages);
    engine.runBatch(encode({ routing: routing(2) }), null);
    engine.checkIntegrity();
    engine.close();
  });
});

describe('an engine without routers', () => {
  it.each([
    [{ maxRoutingK: 0 }, /"maxRoutingK" to be a whole number from 1 to 64/],
    [{ maxRoutingK: 65 }, /"maxRoutingK"/],
    [{ routers: 'no' }, /"routers" to be true or false/],
  ])('refuses options that are none: %j', (limits, message) => {
    expect(() => open(limits)).toThrow(message);
  });
});

describe('a routing to nothing', () => {
  it('gives the states of the model with experts of zeros', () => {
    const silent = fresh();
    cpSync(pack, silent, { recursive: true });
    const experts = join(silent, 'experts.sida');
    const { size } = statSync(experts);
    truncateSync(experts, 0);
    truncateSync(experts, size);
    const states = (limits: object, extra: object, own?: string) => {
      const engine = open(limits, 1, own);
      const { hiddenStates } = engine.runBatch(encode(extra), null);
      engine.close();
      return hiddenStates!;
    };
    const exact = { routers: true };
    const zeros = states(exact, {}, silent);
    const nothing = states({}, { routing: routingToNothing(LAYERS, IDS.length) });
    // A weight of 0 may give zeros another sign.
    expect(nothing.map((value) => value + 0)).toEqual(zeros.map((value) => value + 0));
    expect(states(exact, {})).not.toEqual(zeros);
  });
});
