import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../../src/checkpoint/converter.js';
import { verifyPack } from '../../../src/checkpoint/manifest.js';
import { verifyWeights } from '../../../src/checkpoint/verify-weights.js';
import { loadAddon } from '../../../src/native/addon.js';

const MINI = join(import.meta.dirname, '../../../models/switch-mini');
const LIMITS = { maxBatchTokens: 64, kvTokens: 128, threads: 2 };
const root = mkdtempSync(join(tmpdir(), 'sida-stripes-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let out: string;
let disks: string[];
let count = 0;
beforeEach(() => {
  out = join(root, `pack-${count}`);
  disks = ['a', 'b', 'c'].map((name) => join(root, `disk-${name}-${count}`));
  for (const disk of disks) mkdirSync(disk);
  count += 1;
});

const convert = (extra: object = {}) =>
  convertCheckpoint({ model: MINI, out, experts: 'auto', dense: 'auto', stripes: disks, ...extra });
const stripe = (i: number) => join(disks[i]!, `${out.slice(root.length + 1)}.experts.sida.${i}`);

function openEngine(pack: string) {
  const addon = loadAddon();
  const plan = addon.planMemory({ pack }, LIMITS);
  return new addon.Engine({
    ...LIMITS,
    pack,
    budgetBytes: plan.fixed + 20 * plan.slot,
    hostBudgetBytes: 0,
    linkBandwidth: 0,
    linkLatency: 0,
  });
}

function hiddenStates(pack: string): Uint8Array {
  const engine = openEngine(pack);
  const tokens = Int32Array.from({ length: 60 }, (_, i) => (i * 131) % 8000);
  const { hiddenStates: states } = engine.runBatch(
    {
      stack: 0,
      sequences: Int32Array.of(1),
      offsets: Int32Array.of(0, 60),
      tokens,
      hiddenStates: true,
    },
    null,
  );
  expect(engine.usage().disk).toHaveLength(existsSync(join(pack, 'experts.sida')) ? 1 : 3);
  engine.close();
  return new Uint8Array(states!.buffer);
}

/** Flips a bit in the middle of a file. */
function damage(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(path, bytes);
}

describe('stripes', () => {
  it('hold the same experts as one file, give the same results, and verify', async () => {
    const whole = `${out}-whole`;
    await convert({ out: whole, stripes: undefined });
    await convert();
    await verifyPack(out);
    await verifyWeights({ model: MINI, pack: out });
    disks.forEach((_, i) => {
      expect(readlinkSync(join(out, `experts.sida.${i}`))).toBe(stripe(i));
      expect(lstatSync(stripe(i)).isFile()).toBe(true);
    });
    const block = 131_072;
    const one = readFileSync(join(whole, 'experts.sida'));
    const parts = disks.map((_, i) => readFileSync(stripe(i)));
    for (let id = 0; id < 256; id++) {
      const at = Math.floor(id / 3) * block;
      expect(parts[id % 3]!.subarray(at, at + block).equals(one.subarray(id * block, (id + 1) * block))).toBe(
        true,
      );
    }
    expect(parts.reduce((sum, part) => sum + part.length, 0)).toBe(one.length + 3 * 4096);
    expect(hiddenStates(out)).toEqual(hiddenStates(whole));
  });

  it('may move to another directory if the link follows', async () => {
    await convert();
    const moved = join(disks[0]!, 'elsewhere');
    renameSync(stripe(1), moved);
    rmSync(join(out, 'experts.sida.1'));
    renameSync(moved, join(out, 'experts.sida.1'));
    await verifyPack(out);
    openEngine(out).close();
  });

  it.each([
    ['a file of another name', () => ['other', 'other']],
    ['another stripe', () => ['x.experts.sida.2', 'x.experts.sida.2']],
    ['a link of the right name to another file', () => ['x.experts.sida.1', 'other']],
  ])('that are links to %s are refused, without a hash of it', async (_, names) => {
    await convert();
    const [link, file] = names().map((name) => join(disks[0]!, name)) as [string, string];
    writeFileSync(file, readFileSync(stripe(1)).fill(1));
    if (link !== file) symlinkSync(file, link);
    rmSync(join(out, 'experts.sida.1'));
    symlinkSync(link, join(out, 'experts.sida.1'));
    await expect(verifyPack(out)).rejects.toMatchObject({
      code: 'pack_invalid',
      message: expect.stringMatching(
        /experts\.sida\.1: expected a link to a file NAME\.experts\.sida\.1, as/,
      ),
    });
  });

  it('that hold other content are named without their hash', async () => {
    await convert();
    damage(stripe(1));
    await expect(verifyPack(out)).rejects.toThrow(/sha256: expected [0-9a-f]{64}, found other content;/);
  });

  it.each([
    [
      'missing',
      (i: number) => rmSync(stripe(i)),
      /experts\.sida\.1: missing; remove .* and convert the model again/,
    ],
    ['short', (i: number) => truncateSync(stripe(i), 4096), /experts\.sida\.1: size: expected .* found 4096/],
    ['damaged', (i: number) => damage(stripe(i)), /experts\.sida\.1: sha256: expected/],
  ])('that are %s are found by --verify', async (_, harm, message) => {
    await convert();
    harm(1);
    await expect(verifyPack(out)).rejects.toThrow(message);
  });

  it.each([
    ['missing', (i: number) => rmSync(stripe(i)), 'io_error', /experts\.sida\.1: cannot be opened/],
    ['short', (i: number) => truncateSync(stripe(i), 4096), 'pack_invalid', /experts\.sida\.1: size/],
    [
      'of the same size but in the wrong place',
      // Of 256 experts in 3 files, the last two files hold 85 each.
      (i: number) => copyFileSync(stripe(2), stripe(i)),
      'pack_invalid',
      /experts\.sida\.1: expected stripe 1 of 3 of .*, found stripe 2 of 3 of/,
    ],
  ])('that are %s make the engine throw one clear error', async (_, harm, code, message) => {
    await convert();
    harm(1);
    expect(() => openEngine(out)).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    );
  });

  it('continue an interrupted conversion, and leave nothing of an abandoned one', async () => {
    const abort = new AbortController();
    const stopped = convert({
      signal: abort.signal,
      onProgress: ({ phase }: { phase: string }) => phase === 'hash' && abort.abort(),
    });
    await expect(stopped).rejects.toThrow();
    expect(existsSync(out)).toBe(false);
    const [first, second] = disks as [string, string];
    await convert({ stripes: [first, second] });
    await verifyPack(out);
    expect(readdirSync(disks[2]!)).toEqual([]);
    expect(statSync(stripe(0)).size).toBe(128 * 131_072 + 4096);
  });

  it('refuse missing directories, and do not overwrite existing files', async () => {
    await expect(convert({ stripes: [disks[0], `${disks[1]}-not`] })).rejects.toThrow(
      /-not is not a directory/,
    );
    expect(existsSync(`${out}.partial`)).toBe(false);
    writeFileSync(stripe(2), 'mine');
    await expect(convert()).rejects.toThrow(/experts\.sida\.2 exists already/);
    expect(readFileSync(stripe(2), 'utf8')).toBe('mine');
  });

  it('belong to the settings of a finished pack', async () => {
    await convert();
    await expect(convert()).resolves.toMatchObject({ pack: out });
    await expect(convert({ stripes: undefined })).rejects.toThrow(/is not a pack of this model/);
    rmSync(stripe(1));
    await expect(convert()).rejects.toThrow(/missing; remove .* and convert the model again/);
  });
});
