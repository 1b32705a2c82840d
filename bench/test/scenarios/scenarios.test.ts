import { describe, expect, it } from 'vitest';
import { resolveServeOptions } from '../../../dist/config/resolve.js';
import { FULL_SIZES, leastInputs, tabledTexts, warmUpOf } from '../../src/preparation/sizes.js';
import { MODELS, modelNamed } from '../../src/scenarios/models.js';
import {
  expand,
  FULL,
  isReference,
  LOOKAHEAD,
  type Measurement,
  measurementName,
  QUICK,
  referenceKey,
  type ScenarioBlock,
  scenarioName,
  select,
} from '../../src/scenarios/scenarios.js';
import { PREDICTING, SYSTEMS, systemFlags, UNPREDICTED } from '../../src/scenarios/systems.js';

const BLOCK: ScenarioBlock = {
  models: ['switch-mini'],
  data: ['sst2', 'mrpc'],
  shares: [1, 0.4, 0.125],
  links: ['disk'],
  systems: ['resident', 'lru', 'lstm'],
};
const SYSTEM_NAMES = SYSTEMS.map(({ name }) => name);
const names = (blocks: readonly ScenarioBlock[]) => expand(blocks).map(measurementName);

describe('expand', () => {
  it('runs every system at every budget below the whole, and the resident one once', () => {
    expect(names([{ ...BLOCK, data: ['sst2'] }])).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/40%/disk/lru',
      'switch-mini/sst2/40%/disk/lstm',
      'switch-mini/sst2/12.5%/disk/lru',
      'switch-mini/sst2/12.5%/disk/lstm',
    ]);
  });

  it('runs a system where all experts fit if a block says so', () => {
    expect(names([{ ...BLOCK, data: ['sst2'], shares: [0.4], alsoWhole: ['lstm'] }])).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/100%/disk/lstm',
      'switch-mini/sst2/40%/disk/lru',
      'switch-mini/sst2/40%/disk/lstm',
    ]);
  });

  it('names batches, arrivals and look-aheads that are not the usual ones', () => {
    const only = { ...BLOCK, data: ['sst2'], shares: [0.4], systems: ['lru'] } as const;
    expect(names([{ ...only, batches: [1, 8] }])).toEqual([
      'switch-mini/sst2/40%/disk/lru',
      'switch-mini/sst2/40%/disk/batch-8/lru',
    ]);
    expect(names([{ ...only, arrivals: [50] }])).toEqual(['switch-mini/sst2/40%/disk/rest-50/lru']);
    expect(names([{ ...only, lookaheads: [1, 4] }])).toEqual([
      'switch-mini/sst2/40%/disk/ahead-1/lru',
      'switch-mini/sst2/40%/disk/lru',
    ]);
  });

  it('has a measurement of several blocks once', () => {
    const twice = names([BLOCK, BLOCK]);
    expect(twice).toEqual(names([BLOCK]));
    expect(new Set(twice).size).toBe(twice.length);
  });

  it.each([
    ['quick', QUICK],
    ['full', FULL],
  ])('the %s list has a resident run for all that it compares, and only known models', (_, blocks) => {
    const measurements = expand(blocks);
    const references = new Set(
      measurements.filter(isReference).map(({ scenario }) => referenceKey(scenario)),
    );
    for (const measurement of measurements) {
      expect(references, measurementName(measurement)).toContain(referenceKey(measurement.scenario));
      expect(MODELS.map(({ name }) => name)).toContain(measurement.scenario.model);
    }
  });
});

describe('the full list', () => {
  const measurements = expand(FULL);

  it('has LRU and `none` beside every row of ours', () => {
    const place = ({ scenario }: Measurement) => scenarioName({ ...scenario, lookahead: LOOKAHEAD });
    for (const list of [measurements, expand(QUICK)]) {
      const of = (name: string) => new Set(list.filter(({ system }) => system === name).map(place));
      const [lru, none] = UNPREDICTED.map(of);
      for (const measurement of list) {
        if (!PREDICTING.includes(measurement.system)) continue;
        expect(lru, measurementName(measurement)).toContain(place(measurement));
        expect(none, measurementName(measurement)).toContain(place(measurement));
      }
    }
  });

  it('measures enough inputs of every model and task', () => {
    for (const { scenario } of measurements) {
      const model = modelNamed(scenario.model);
      const least = { 256: 20 }[model.shape.experts] ?? 50;
      expect(leastInputs(model)).toBe(least);
      expect(FULL_SIZES.sentences(model, scenario.data), scenario.model).toBeGreaterThanOrEqual(least);
    }
  });

  it('has the paper’s system beside predicted routing at 8, 64, 128 and 256 experts, on its three tasks', () => {
    for (const experts of [8, 64, 128, 256]) {
      const own = measurements.filter(
        ({ scenario }) => scenario.model.startsWith(`switch-base-${experts}-`) && scenario.share === 0.2,
      );
      for (const system of ['paper', 'predicted', 'lstm', 'replay', 'layer-streaming']) {
        const tasks = own.filter((one) => one.system === system).map(({ scenario }) => scenario.data);
        expect([...new Set(tasks)].sort(), `${experts} ${system}`).toEqual(['mrpc', 'multirc', 'sst2']);
      }
    }
  });

  it('has the words on both beds: every budget on disk, small ones of the padded bed over a link, and look-ahead 1', () => {
    const words = measurements.filter(({ scenario }) => scenario.data === 'words');
    const systems = ['lru', 'none', 'lfu', 'static-hot', 'lstm', 'attention', 'token', 'replay', 'shuffled'];
    const all = [...systems, 'predicted', 'paper', 'layer-streaming'];
    const expected = (place: string, shares: number[]) => [
      `${place.replace('*', '100%')}/resident`,
      ...shares.flatMap((share) => all.map((system) => `${place.replace('*', `${share}%`)}/${system}`)),
    ];
    expect(words.map(measurementName).sort()).toEqual(
      [
        ...expected('switch-words/words/*/disk', [60, 40, 25, 10]),
        ...expected('switch-words-padded/words/*/disk', [60, 40, 25, 10]),
        ...expected('switch-words-padded/words/*/simulated-12GBps', [25, 10]),
        ...['switch-words', 'switch-words-padded'].flatMap((model) =>
          [25, 10].flatMap((share) =>
            ['lstm', 'attention', 'replay'].map(
              (system) => `${model}/words/${share}%/disk/ahead-1/${system}`,
            ),
          ),
        ),
      ].sort(),
    );
    const quick = expand(QUICK).filter(({ scenario }) => scenario.data === 'words');
    expect(quick.map(measurementName)).toEqual([
      'switch-words/words/100%/disk/resident',
      ...['lru', 'none', 'lstm', 'replay'].map((system) => `switch-words/words/25%/disk/${system}`),
    ]);
  });

  it('has the control of wrong tables wherever true ones stand beside single inputs', () => {
    const usual = measurements.filter(
      ({ scenario }) => scenario.batch === 1 && scenario.lookahead === LOOKAHEAD,
    );
    const of = (name: string) =>
      usual.filter(({ system }) => system === name).map(({ scenario }) => scenarioName(scenario));
    expect(of('replay').length).toBeGreaterThan(30);
    expect(of('shuffled')).toEqual(expect.arrayContaining(of('replay')));
  });

  it('measures the predicting system of the README where all experts fit too', () => {
    expect(measurements.map(measurementName)).toContain('switch-mini/sst2/100%/disk/lstm');
  });
});

describe('the systems', () => {
  const paths = { predictor: 'p', trace: 't' };

  it('has the paper’s system as predicted routing with FIFO, and `none` as the defaults without a predictor', () => {
    expect(systemFlags('paper', paths)).toEqual({ ...systemFlags('predicted', paths), policy: 'fifo' });
    expect(systemFlags('paper', paths)).toMatchObject({ routing: 'predicted', predictor: 'p' });
    expect(systemFlags('none', paths)).toEqual({ predictor: 'none' });
    // The default policy is not LRU, so both are measured.
    expect(
      resolveServeOptions({ flags: { model: 'm', ...systemFlags('none', paths) }, env: {} }).policy,
    ).not.toBe('lru');
  });
});

describe('warm-up', () => {
  it('is the same for all systems of a scenario, and other text than is measured', () => {
    const inputs = { texts: ['a', 'b', 'c', 'd'], training: ['e', 'f', 'g', 'h', 'i'] };
    for (const link of ['disk', 'simulated-12GBps'] as const) {
      const block = {
        ...BLOCK,
        data: ['sst2'],
        shares: [0.4],
        links: [link],
        systems: SYSTEM_NAMES,
      } as const;
      const all = expand([block])
        .filter(({ scenario }) => scenario.share < 1)
        .map((measurement) => warmUpOf(modelNamed('switch-mini'), measurement, inputs));
      expect(all.length).toBeGreaterThan(10);
      expect(new Set(all.map((texts) => texts.join())).size).toBe(1);
      expect(all[0]!.slice(-4)).toEqual(['e', 'f', 'g', 'h']);
    }
  });

  it('has true tables, whose texts begin with the measured ones, each once', () => {
    const letters = (first: number, count: number) =>
      Array.from({ length: count }, (_, i) => `${String.fromCharCode(97 + first)}${i}`);
    const inputs = { texts: letters(0, 40), training: ['a0', ...letters(1, 60)] };
    for (const [list, measurements] of [expand(QUICK), expand(FULL)].entries()) {
      const replayed = measurements.filter(({ system }) => system === 'replay');
      expect(replayed.length, String(list)).toBeGreaterThan(0);
      for (const { scenario } of replayed) {
        const model = modelNamed(scenario.model);
        const own = replayed.filter((one) => one.scenario.model === scenario.model);
        const texts = tabledTexts(model, own, inputs);
        expect(texts.slice(0, 40)).toEqual(inputs.texts);
        expect(new Set(texts).size).toBe(texts.length);
        for (const one of own)
          expect(texts).toEqual(expect.arrayContaining([...warmUpOf(model, one, inputs)]));
      }
    }
    expect(tabledTexts(modelNamed('switch-mini'), [], inputs)).toEqual(inputs.texts);
  });
});

describe('select', () => {
  const measurements = expand([BLOCK]);
  const chosen = (...patterns: string[]) => select(measurements, patterns).map(measurementName);

  it('takes all without a pattern', () => {
    expect(select(measurements, [])).toEqual(measurements);
  });

  it('keeps the resident run that a wanted measurement is compared with, and no other', () => {
    expect(chosen('switch-mini/sst2/40%/disk/lru')).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/40%/disk/lru',
    ]);
  });

  it('takes stars for anything and names for all below them', () => {
    expect(chosen('*/lstm').filter((name) => name.endsWith('lstm'))).toHaveLength(4);
    expect(chosen('switch-mini/mrpc')).toHaveLength(5);
    expect(chosen('switch-mini/mrpc/4')).toEqual([]);
    expect(chosen('lru')).toEqual([]);
  });
});
