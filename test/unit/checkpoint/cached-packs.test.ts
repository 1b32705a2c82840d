import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CachedPack, removePack } from '../../../src/checkpoint/cached-packs.js';
import { tryLock } from '../../../src/checkpoint/lock-file.js';
import { holdPack } from '../../../src/checkpoint/pack-use.js';

let root: string;
let packs: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-remove-'));
  packs = join(root, 'packs');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const remove = (pack: string, kind: CachedPack['kind'] = 'pack', usedMs = Date.now() + 1000) =>
  removePack(packs, { pack, kind, usedMs });

function makePack(name: string): string {
  const pack = join(packs, name);
  mkdirSync(pack, { recursive: true });
  writeFileSync(join(pack, 'manifest.json'), '{"format":"sida-pack","version":3}');
  writeFileSync(join(pack, 'experts.sida'), 'weights');
  return pack;
}

describe('the removal of a pack', () => {
  it('waits for no process that holds it, and takes away what nobody holds', async () => {
    const pack = makePack('a');
    const holds = [await holdPack(pack), await holdPack(pack)];
    expect(await remove('a')).toBe(false);
    holds[0]!.release();
    expect(await remove('a')).toBe(false);
    holds[1]!.release();
    expect(await remove('a')).toBe(true);
    expect(readdirSync(packs)).toEqual([]);
    expect(await holdPack(pack)).toBeUndefined();
    expect(readdirSync(packs)).toEqual([]);
  });

  it('leaves what is no pack, and locks nothing in it', async () => {
    mkdirSync(join(packs, 'mine'), { recursive: true });
    expect(await remove('mine')).toBe(false);
    expect(await remove('none')).toBe(false);
    expect(readdirSync(join(packs, 'mine'))).toEqual([]);
  });

  it('goes on where one was interrupted', async () => {
    mkdirSync(join(packs, 'a.removed-0123456789abcdef', 'more'), { recursive: true });
    expect(await remove('a.removed-0123456789abcdef', 'removed')).toBe(true);
    expect(readdirSync(packs)).toEqual([]);
  });
});

describe('the removal of an abandoned conversion', () => {
  const name = 'my-model-bf16-0123456789abcdef-0123456789abcdef';
  const partial = () => mkdirSync(join(packs, `${name}.partial`), { recursive: true });

  it.each([name, 'bf16-0123456789abcdef'])(
    'is refused while a process converts under %s.lock',
    async (lock) => {
      partial();
      const held = tryLock(join(packs, `${lock}.lock`), { shared: false })!;
      expect(await remove(`${name}.partial`, 'unfinished')).toBe(false);
      held.release();
      expect(await remove(`${name}.partial`, 'unfinished')).toBe(true);
      expect(readdirSync(packs)).toEqual([]);
    },
  );

  it('is refused when it went on after it was listed', async () => {
    partial();
    expect(await remove(`${name}.partial`, 'unfinished', Date.now() - 60_000)).toBe(false);
    expect(readdirSync(packs)).toEqual([`${name}.partial`]);
  });
});
