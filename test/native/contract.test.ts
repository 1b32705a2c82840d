// Compares the addon with its TypeScript types, which the compiler cannot check: the exported names, the members of
// classes, the fields of results, the fields that it reads from arguments, and the values of enumerations.
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import * as types from '../../src/native/addon-types.js';
import { THREAD_OPS } from '../../src/profile/thread-events.js';
import { Interfaces, watched } from '../support/interfaces.js';
import { addon, fresh, MINI, NO_TIERS, openEngine, packOf, passOf, REPO, root, thrown } from './fixture.js';
import { embedding, savedPredictor, settings, shape, task } from './predictor-fixture.js';

const FILES = ['addon', 'engine', 'gguf', 'pack', 'peer', 'predictor', 'profile', 'store'];
const sources = FILES.map((name) => readFileSync(join(REPO, `src/native/${name}-types.ts`), 'utf8'));
const declared = new Interfaces(sources, types);

const pack = await packOf(MINI);
const LIMITS = { maxBatchTokens: 64, kvTokens: 128, threads: 1 };
const BF16 = { dtype: 'bf16' as const };
const BATCH = passOf([5, 6]);

const NEEDS = {
  own: [{ id: 1, layer: 0, need: new Float32Array(4) }],
  ...{ behind: [], upcoming: [], control: false, linkBusy: 1, slotStay: 1 },
};

const names = (type: string) => declared.members(type).map(({ name }) => name);
const sorted = (all: Iterable<string>) => [...all].sort();

describe('the exports of the addon', () => {
  it('match its type', () => {
    expect(sorted(Object.keys(addon))).toEqual(sorted(names('NativeAddon')));
    expect(declared.faults({ ...addon }, 'NativeAddon', 'addon')).toEqual([]);
  });

  it.each([
    'Engine',
    'ExpertPeer',
    'WeightlessStore',
    'PackWriter',
    'PackVerifier',
    'TokenEmbedding',
    'Predictor',
    'PredictorTrainer',
  ] as const)('include the members of %s', (name) => {
    const own = Object.getOwnPropertyNames(addon[name].prototype).filter((each) => each !== 'constructor');
    expect(sorted(own)).toEqual(sorted(names(name)));
  });

  it('number enumerations as the constants do', () => {
    expect(addon.noExpert).toBe(types.NO_EXPERT);
    const found = [
      types.EXPERT_UNUSED,
      types.EXPERT_RESIDENT,
      types.EXPERT_PREFETCHED,
      types.EXPERT_LATE,
      types.EXPERT_ON_DEMAND,
      types.EXPERT_PEER,
      types.EXPERT_CPU,
    ];
    expect(found.map((number) => addon.names.found[number])).toEqual(types.FOUND);
    const states = [types.ABSENT, types.LOADING, types.RESIDENT];
    expect(states.map((number) => addon.names.residency[number])).toEqual(types.RESIDENCY_STATES);
    expect(addon.names.policies).toEqual(types.EVICTION_POLICIES);
    const ops = addon.profile.ops.map(({ name }) => name);
    expect(THREAD_OPS.filter((op) => !ops.includes(op))).toEqual([]);
  });
});

describe('the results of the addon', () => {
  it('match the types of its functions', () => {
    const file = join(MINI, 'model.safetensors');
    const gguf = join(root, 'olmoe.gguf');
    writeFileSync(gguf, brotliDecompressSync(readFileSync(join(REPO, 'test/fixtures/gguf/olmoe.gguf.br'))));
    const lock = openSync(join(root, 'lock'), 'w');
    const given = {
      cpuFeatures: addon.cpuFeatures(),
      cuda: addon.cuda(),
      inspectCheckpoint: addon.inspectCheckpoint(MINI),
      readGguf: addon.readGguf(gguf),
      describePack: addon.describePack({ config: MINI, experts: BF16, dense: BF16 }),
      checkFinite: addon.checkFinite(pack, 0, 1),
      planMemory: addon.planMemory({ pack }, LIMITS),
      measureWeightSpeed: addon.measureWeightSpeed({ pack }, LIMITS),
      measureDiskSpeed: addon.measureDiskSpeed(file, 4096, 0.01),
      tryLock: addon.tryLock(lock, true),
    };
    closeSync(lock);
    const functions = declared.members('NativeAddon').filter(({ method }) => method);
    expect(sorted(Object.keys(given))).toEqual(sorted(functions.map(({ name }) => name)));
    for (const [name, value] of Object.entries(given)) {
      expect(declared.faults(value, declared.result('NativeAddon', name), name)).toEqual([]);
    }
  });

  it('match the types of an engine', () => {
    const engine = openEngine(pack, LIMITS);
    const run = engine.runBatch({ ...BATCH, hiddenStates: true, routerLogits: true }, null);
    const rows = Int32Array.of(0);
    const decode = {
      ...BATCH,
      stack: 1,
      sequences: Int32Array.of(2),
      parents: BATCH.sequences,
      logitRows: rows,
      picks: { rows, top: Int32Array.of(3) },
      queries: { rows, tokens: rows },
    };
    for (const [value, type] of [
      [engine.shape, 'ModelShape'],
      [engine.plan, 'MemoryPlan'],
      [engine.formats, 'PackFormats'],
      [engine.residency(), 'Residency'],
      [engine.usage(), 'DeviceUsage'],
      [run, 'RunResult'],
      [engine.runBatch(decode, null), 'RunResult'],
    ] as const) {
      expect(declared.faults(value, type, type)).toEqual([]);
    }
    const { state } = engine.residency();
    expect([...state].every((number) => number in types.RESIDENCY_STATES)).toBe(true);
    engine.close();
  });

  it('match the types of a store without weights', () => {
    const store = new addon.WeightlessStore({ layerExperts: Uint32Array.of(4), slots: 2, loadsInFlight: 2 });
    const keys = new Float64Array(4);
    const plan = { keys, keysAfter: keys, loads: Uint32Array.of(1), expendable: 0, newestFirst: false };
    for (const [method, value] of [
      ['startPass', store.startPass(null)],
      ['startPass', store.startPass(plan)],
      ['visit', store.visit(Uint32Array.of(0, 1))],
      ['visit', store.visit(Uint32Array.of(0, 1))],
      ['pin', store.pin(Uint32Array.of(3), true)],
      ['residency', store.residency()],
      ['plan', store.plan(NEEDS)],
      ['takePlanNs', store.takePlanNs()],
    ] as const) {
      const type = declared.result('WeightlessStore', method);
      expect(declared.faults(value, type, method)).toEqual([]);
    }
  });

  it('match the types of packs, predictors and profiles', () => {
    const writer = new addon.PackWriter({ checkpoint: MINI, out: fresh(), experts: BF16, dense: BF16 });
    const verifier = new addon.PackVerifier({ checkpoint: MINI, pack });
    const trainer = new addon.PredictorTrainer({ embedding, settings, shape, seed: 1 });
    addon.profile.start(1 << 16);
    for (const [value, type] of [
      [writer.layout, 'PackLayout'],
      [verifier.report, 'VerifiedWeights'],
      [trainer.shape, 'NetworkShape'],
      [trainer.step(task(1), 1e-3), 'TrainingReport'],
      [trainer.evaluate(task(1)), 'TrainingReport'],
      [addon.profile.stop(), 'NativeProfile'],
    ] as const) {
      expect(declared.faults(value, type, type)).toEqual([]);
    }
    writer.close();
    verifier.close();
    trainer.close();
  });
});

/** The fields of `object` that `call` reads. */
function asked<T extends object>(object: T, call: (watching: T) => unknown): string[] {
  const { object: watching, asked: fields } = watched(object);
  call(watching);
  return sorted(fields);
}

describe('the fields that the addon reads', () => {
  it('match the type of the options of an engine', () => {
    const limits = asked(LIMITS, (watching) => addon.planMemory({ pack }, watching));
    expect(limits).toEqual(sorted(names('BatchLimits')));
    const { resident: budgetBytes } = addon.planMemory({ pack }, LIMITS);
    const options = { pack, budgetBytes, ...NO_TIERS, ...LIMITS };
    expect(asked(options, (watching) => new addon.Engine(watching).close())).toEqual(
      sorted(names('EngineOptions')),
    );
  });

  it('match the types of a batch, its routing and its plan', () => {
    const engine = openEngine(pack, LIMITS);
    expect(asked(BATCH, (batch) => engine.runBatch(batch, null))).toEqual(sorted(names('NativeBatch')));
    const entries = 2 * BATCH.tokens.length;
    const routing = { experts: new Uint16Array(entries), alpha: new Float32Array(entries), k: 1 };
    const rows = Int32Array.of(0);
    const floats = Float32Array.of(1);
    const decode = { ...BATCH, stack: 1, sequences: Int32Array.of(4), parents: BATCH.sequences };
    const picks = (more: object) => ({ ...decode, picks: { rows, ...more } });
    expect(asked({ rows }, (watching) => engine.runBatch({ ...decode, picks: watching }, null))).toEqual(
      sorted(names('NativePicks')),
    );
    const sampling = {
      ...{ temperature: floats, topP: floats, minP: floats, topK: rows },
      ...{ seed: BigUint64Array.of(1n), position: Float64Array.of(0) },
    };
    const sampled = asked(sampling, (watching) => engine.runBatch(picks({ sampling: watching }), null));
    const members = declared.members('NativePicks').find(({ name }) => name === 'sampling')!.type;
    for (const field of sampled) expect(members).toMatch(new RegExp(`\\b${field}:`));
    expect(sampled).toHaveLength(Object.keys(sampling).length);
    const adjustments = {
      ...{ presence: Float64Array.of(1), frequency: Float64Array.of(1), repetition: Float64Array.of(1.1) },
      ...{ seen: rows, generated: Uint32Array.of(2), seenEnds: Uint32Array.of(1) },
      ...{ biased: rows, biases: Float64Array.of(1), biasedEnds: Uint32Array.of(1) },
    };
    expect(asked(adjustments, (watching) => engine.runBatch(picks({ adjustments: watching }), null))).toEqual(
      sorted(names('NativeAdjustments')),
    );
    const next = { ...BATCH, sequences: Int32Array.of(2) };
    expect(asked(routing, (watching) => engine.runBatch({ ...next, routing: watching }, null))).toEqual(
      sorted(names('NativeRouting')),
    );
    const keys = new Float64Array(engine.plan.experts);
    const plan = { keys, keysAfter: keys, loads: new Uint32Array(), expendable: 0, newestFirst: false };
    const own = [{ id: 1, layer: 0, need: new Float32Array(engine.shape.experts) }];
    const needs = asked({ ...NEEDS, own }, (watching) =>
      engine.runBatch({ ...BATCH, sequences: Int32Array.of(5) }, watching),
    );
    expect(needs).toEqual(sorted(names('PassNeeds')));
    const last = { ...BATCH, sequences: Int32Array.of(3) };
    expect(asked(plan, (watching) => engine.runBatch(last, watching))).toEqual(
      sorted(names('ResidencyPlan')),
    );
    engine.close();
  });

  it('match the types of the options and the plan of a store without weights', () => {
    const options = { layerExperts: Uint32Array.of(4), slots: 2, loadsInFlight: 2 };
    expect(asked(options, (watching) => new addon.WeightlessStore(watching))).toEqual(
      sorted(names('WeightlessStoreOptions')),
    );
    const store = new addon.WeightlessStore(options);
    const keys = new Float64Array(4);
    const plan = { keys, keysAfter: keys, loads: new Uint32Array(), expendable: 0, newestFirst: false };
    expect(asked(plan, (watching) => store.startPass(watching))).toEqual(sorted(names('ResidencyPlan')));
  });

  it('match the types of the options of packs and predictors', () => {
    const pack = { checkpoint: MINI, out: fresh(), experts: BF16, dense: BF16 };
    const directory = savedPredictor();
    const trainer = { embedding, settings, shape, seed: 1 };
    const predictor = { directory, embedding, threads: 1 };
    const given: [string, string[]][] = [
      ['PackOptions', asked(pack, (watching) => new addon.PackWriter(watching).close())],
      [
        'WeightFormat',
        asked(BF16, (experts) => new addon.PackWriter({ ...pack, out: fresh(), experts }).close()),
      ],
      [
        'TrainerSettings',
        asked(settings, (s) => new addon.PredictorTrainer({ ...trainer, settings: s }).close()),
      ],
      ['PredictorShape', asked(shape, (s) => new addon.PredictorTrainer({ ...trainer, shape: s }).close())],
      ['TrainingBatch', asked(task(1), (batch) => new addon.PredictorTrainer(trainer).evaluate(batch))],
    ];
    for (const [type, fields] of given) expect(fields, type).toEqual(sorted(names(type)));
    const opened = asked(predictor, (watching) => new addon.Predictor(watching).close());
    const options = declared.members('NativeAddon').find(({ name }) => name === 'Predictor')!.type;
    for (const field of opened) expect(options).toMatch(new RegExp(`\\b${field}\\??:`));
    expect(opened).toHaveLength(options.match(/\w+\??:/g)!.length - 1);
  });

  it('take the values that the types allow, which the refusal of another value lists', () => {
    const plan = (more: object) => addon.planMemory({ pack }, { ...LIMITS, ...more });
    const trained = (distillation: string) =>
      new addon.PredictorTrainer({
        embedding,
        settings: { ...settings, distillation } as never,
        shape,
        seed: 1,
      });
    const distillation = declared
      .members('TrainerSettings')
      .find(({ name }) => name === 'distillation')!.type;
    const format = (dtype: string) =>
      addon.planMemory({ checkpoint: MINI, experts: { dtype } as never }, LIMITS);
    for (const [words, call] of [
      [declared.words('Activations'), (activations: string) => plan({ activations })],
      [declared.words('KvType'), (kv: string) => plan({ kv })],
      [declared.words('DeviceName'), (device: string) => plan({ device })],
      [declared.words(distillation), trained],
      [declared.words('ExpertDtype'), format],
    ] as const) {
      const { message } = thrown(() => call('another'));
      for (const word of words) expect(message).toMatch(new RegExp(`\\b${word}\\b`));
    }
  });
});
