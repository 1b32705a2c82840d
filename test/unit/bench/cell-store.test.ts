import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CellStore } from '../../../src/bench/cell-store.js';
import type { Cell } from '../../../src/bench/scenarios.js';
import { sampleOf } from './fixture.js';

const root = mkdtempSync(join(tmpdir(), 'sida-cells-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const CELL: Cell = {
  scenario: { model: 'switch-mini', data: 'sst2', share: 0.2, link: 'disk', batch: 1, lookahead: 4 },
  system: 'lru',
};
const SPEC = { sentences: 8, warmUp: 2, lookahead: 4, threads: 2, seed: 1, inputs: 'x' };

describe('CellStore', () => {
  it('goes on from the samples of an earlier run', () => {
    const out = join(root, 'resumed');
    const first = new CellStore(out);
    first.add(first.read(CELL, SPEC), sampleOf({ wallMs: 5 }), 'one');
    const later = new CellStore(out);
    later.add(later.read(CELL, SPEC), sampleOf({ wallMs: 6 }), 'two');
    const { name, samples, commits } = new CellStore(out).read(CELL, SPEC);
    expect(name).toBe('switch-mini/sst2/20%/disk/lru');
    expect(samples.map(({ wallMs }) => wallMs)).toEqual([5, 6]);
    expect(commits).toEqual(['one', 'two']);
  });

  it('measures again what was measured otherwise, what is damaged, and what was cleared', () => {
    const out = join(root, 'other');
    const store = new CellStore(out);
    const samples = (spec = SPEC) => store.read(CELL, spec).samples.length;
    store.add(store.read(CELL, SPEC), sampleOf(), 'one');
    expect([samples(), samples({ ...SPEC, sentences: 9 }), samples({ ...SPEC, inputs: 'y' })]).toEqual([
      1, 0, 0,
    ]);
    const file = join(out, 'cells/switch-mini/sst2/20%/disk/lru.json');
    writeFileSync(file, '{"spec":');
    expect(samples()).toBe(0);
    store.add(store.read(CELL, SPEC), sampleOf(), 'one');
    store.clear();
    expect(samples()).toBe(0);
  });
});
