import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ResultStore } from '../../src/runs/result-store.js';
import type { Measurement } from '../../src/scenarios/scenarios.js';
import { sampleOf } from '../support/fixture.js';

const root = mkdtempSync(join(tmpdir(), 'sida-measurements-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const MEASUREMENT: Measurement = {
  scenario: { model: 'switch-mini', data: 'sst2', share: 0.2, link: 'disk', batch: 1, lookahead: 4 },
  system: 'lru',
};
const SPEC = { sentences: 8, warmUp: 2, lookahead: 4, threads: 2, seed: 1, inputs: 'x' };

describe('ResultStore', () => {
  it('goes on from the samples of an earlier run', () => {
    const out = join(root, 'resumed');
    const first = new ResultStore(out);
    first.add(first.read(MEASUREMENT, SPEC), sampleOf({ wallMs: 5 }), 'one');
    const later = new ResultStore(out);
    later.add(later.read(MEASUREMENT, SPEC), sampleOf({ wallMs: 6 }), 'two');
    const { name, samples, commits } = new ResultStore(out).read(MEASUREMENT, SPEC);
    expect(name).toBe('switch-mini/sst2/20%/disk/lru');
    expect(samples.map(({ wallMs }) => wallMs)).toEqual([5, 6]);
    expect(commits).toEqual(['one', 'two']);
  });

  it('measures again what was measured otherwise, what is damaged, and what was cleared', () => {
    const out = join(root, 'other');
    const store = new ResultStore(out);
    const samples = (spec = SPEC) => store.read(MEASUREMENT, spec).samples.length;
    store.add(store.read(MEASUREMENT, SPEC), sampleOf(), 'one');
    expect([samples(), samples({ ...SPEC, sentences: 9 }), samples({ ...SPEC, inputs: 'y' })]).toEqual([
      1, 0, 0,
    ]);
    const file = join(out, 'measurements/switch-mini/sst2/20%/disk/lru.json');
    writeFileSync(file, '{"spec":');
    expect(samples()).toBe(0);
    store.add(store.read(MEASUREMENT, SPEC), sampleOf(), 'one');
    store.clear();
    expect(samples()).toBe(0);
  });
});
