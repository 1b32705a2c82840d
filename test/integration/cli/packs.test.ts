// `sida packs` on caches that a server has filled.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import type { CachedPack } from '../../../src/checkpoint/cached-packs.js';
import { addTask, copyModel } from '../../support/changed-model.js';
import { ServerProcess } from '../../support/server-process.js';
import { ended } from '../../support/sida-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-packs-test-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const UNFINISHED = 'bf16-0123456789abcdef-0123456789abcdef.partial';

let at: string;
let model: string;
let packDir: string;
let count = 0;
beforeEach(() => {
  at = join(root, String(count++));
  model = copyModel(join(at, 'models'));
  packDir = join(at, 'packs');
});

const sida = (...args: string[]) => ended([...args, '--pack-dir', packDir]);
const list = async (): Promise<CachedPack[]> =>
  JSON.parse((await sida('packs', 'list', '--json')).stdout).packs;
const prune = async (...args: string[]) =>
  JSON.parse((await sida('packs', 'prune', '--json', ...args)).stdout);
const serve = (...args: string[]) =>
  ServerProcess.start([
    '--model',
    model,
    '--pack-dir',
    packDir,
    '--memory-budget',
    '100%',
    '--threads',
    '1',
    ...args,
  ]);
const realLink = (path: string) => {
  try {
    return readlinkSync(path);
  } catch {
    // Descriptors come and go.
    return undefined;
  }
};
const packNames = () => readdirSync(packDir).filter((name) => name.startsWith('switch-mini'));

async function fill(...args: string[]): Promise<void> {
  await (await serve(...args)).stop();
}

const MADE = join(root, 'made');

/** A copy of the pack that a server made for the first test that asks. */
async function copyPack(): Promise<void> {
  if (!existsSync(MADE)) {
    await fill();
    cpSync(packDir, MADE, { recursive: true });
    return;
  }
  cpSync(MADE, packDir, { recursive: true });
  const use = { source: model, usedMs: Date.now() };
  writeFileSync(join(packDir, packNames()[0]!, 'use.json'), JSON.stringify(use));
}

/** Sets back the time at which the packs were last used. */
function age(days: number): void {
  for (const pack of packNames()) {
    const path = join(packDir, pack, 'use.json');
    const use = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...use, usedMs: Date.now() - days * 86_400_000 }));
  }
}

describe('sida packs list', () => {
  it('says of each pack how large it is, when it was used last, and for which checkpoint', async () => {
    await copyPack();
    await fill('--experts', 'int8');
    const packs = await list();
    expect(packs).toMatchObject(
      ['bf16', 'int8'].map((experts) => ({
        pack: expect.stringMatching(new RegExp(`^switch-mini-${experts}-[0-9a-f]{16}-[0-9a-f]{16}$`)),
        kind: 'pack',
        source: model,
        inUse: false,
      })),
    );
    for (const { bytes, usedMs } of packs) {
      expect(bytes).toBeGreaterThan(20e6);
      expect(Date.now() - usedMs).toBeLessThan(60_000);
    }
    const { stdout } = await sida('packs', 'list');
    expect(stdout.split('\n')[1]).toMatch(/^pack +size +last used +checkpoint$/);
    expect(stdout).toContain(`min ago  ${model}`);
  });

  it('says that a directory holds none, and names damaged and unfinished ones', async () => {
    expect((await sida('packs', 'list')).stdout).toBe(`${packDir} holds no packs\n`);
    expect(existsSync(packDir)).toBe(false);
    for (const name of ['old-bf16-0123456789abcdef', 'other', `new-${UNFINISHED}`]) {
      mkdirSync(join(packDir, name), { recursive: true });
    }
    const manifest = join(packDir, 'old-bf16-0123456789abcdef', 'manifest.json');
    writeFileSync(manifest, '{"format":"sida-pack","version":2}');
    expect((await list()).map(({ kind }) => kind)).toEqual(['unfinished', 'pack']);
  });
});

describe('sida packs prune', () => {
  it('shows what would go, removes it with --yes, and keeps what serves', async () => {
    await copyPack();
    addTask(model);
    age(40);
    const [useless] = packNames();
    await fill();
    const dry = await sida('packs', 'prune');
    expect(dry.code).toBe(0);
    expect(dry.stdout).toContain(`${useless!}  `);
    // The other pack shares the weights, so only the texts are free.
    expect(dry.stdout).toMatch(/Would remove 1 pack and free [\d.]+ KiB; run again with --yes\n$/);
    expect(packNames()).toHaveLength(2);
    const pruned = await prune('--yes');
    expect(pruned).toMatchObject({ removed: true, inUse: [], packs: [{ pack: useless }] });
    expect(packNames()).toHaveLength(1);
    expect((await sida('packs', 'prune', '--yes')).stdout).toBe(`Nothing to remove in ${packDir}\n`);
    await fill();
    expect(packNames()).toHaveLength(1);
  });

  it('never removes a pack that a live process holds, also between the death of its engine and the restart', async () => {
    const server = await serve();
    try {
      const pid = server.child.pid!;
      const files = readdirSync(`/proc/${pid}/fd`).map((fd) => realLink(`/proc/${pid}/fd/${fd}`));
      expect(files).toContain(join(packDir, packNames()[0]!, 'use.lock'));
      expect((await list())[0]).toMatchObject({ inUse: true });
      const { code, stdout } = await sida('packs', 'prune', '--yes', '--older-than', '0h');
      expect([code, stdout]).toEqual([1, expect.stringContaining('stays: a running process uses it')]);
      expect(packNames()).toHaveLength(1);
      process.kill(server.enginePids()[0]!, 'SIGKILL');
      expect(await prune('--yes', '--older-than', '0h')).toMatchObject({ packs: [], inUse: packNames() });
      expect(packNames()).toHaveLength(1);
      await server.ready(30_000);
    } finally {
      await server.stop();
    }
    const pruned = await prune('--yes', '--older-than', '0h');
    expect(pruned).toMatchObject({ inUse: [], packs: [{ kind: 'pack' }] });
    expect(pruned.packs[0].ownBytes).toBeGreaterThan(37e6);
    expect(packNames()).toEqual([]);
  });

  it('removes packs that were last used before --older-than, and conversions abandoned as long ago', async () => {
    await copyPack();
    age(40);
    const partial = join(packDir, `switch-mini-${UNFINISHED}`);
    mkdirSync(partial);
    const old = new Date(Date.now() - 31 * 86_400_000);
    utimesSync(partial, old, old);
    expect((await prune('--older-than', '41d')).packs).toEqual([]);
    expect((await prune('--older-than', '32d')).packs).toMatchObject([{ kind: 'pack' }]);
    expect((await prune('--yes')).packs.map(({ kind }: CachedPack) => kind).toSorted()).toEqual([
      'pack',
      'unfinished',
    ]);
    expect(packNames()).toEqual([]);
  });

  it('never removes what is no pack', async () => {
    await copyPack();
    const before = ['photos', 'home.partial', 'a-bf16-0123456789abcdef-0123456789abcdef'];
    for (const name of before) {
      mkdirSync(join(packDir, name));
      writeFileSync(join(packDir, name, 'mine'), 'mine');
    }
    // A program's own manifest makes no pack.
    writeFileSync(join(packDir, 'photos', 'manifest.json'), '{"version":2,"name":"photos"}');
    const other = join(packDir, 'older');
    mkdirSync(other);
    writeFileSync(join(other, 'manifest.json'), '{"format":"sida-pack","version":2}');
    const old = new Date(Date.now() - 100 * 86_400_000);
    for (const name of [...before, 'older']) utimesSync(join(packDir, name), old, old);
    utimesSync(join(other, 'manifest.json'), old, old);
    expect((await prune('--yes', '--older-than', '101d')).packs).toEqual([]);
    expect((await prune('--yes')).packs.map(({ pack }: CachedPack) => pack)).toEqual(['older']);
    for (const name of before) expect(readdirSync(join(packDir, name))).toContain('mine');
  });

  it.each(['30', '3 days', '-1d', ''])('refuses --older-than %j', async (text) => {
    const { code, stderr } = await sida('packs', 'prune', `--older-than=${text}`);
    expect([code, stderr]).toEqual([2, expect.stringContaining('such as 30d or 12h')]);
  });
});
