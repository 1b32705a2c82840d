import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../../src/checkpoint/converter.js';
import { isPack, PACK_VERSION, verifyPack } from '../../../src/checkpoint/manifest.js';
import { preparePack } from '../../../src/checkpoint/prepare-pack.js';

const MINI = join(import.meta.dirname, '../../../models/switch-mini');
const root = mkdtempSync(join(tmpdir(), 'sida-convert-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const BF16 = { dtype: 'bf16' };
/** Of an interrupted run. */
const JOURNAL = { version: PACK_VERSION, experts: BF16, dense: BF16 };

let out: string;
let count = 0;
beforeEach(() => {
  out = join(root, `pack-${count++}`);
});

const convert = (extra: object = {}) =>
  convertCheckpoint({ model: MINI, out, experts: 'auto', dense: 'auto', ...extra });

function setVersion(pack: string, version: number): void {
  const path = join(pack, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8'));
  expect(manifest.version).toBe(PACK_VERSION);
  writeFileSync(path, JSON.stringify({ ...manifest, version }));
}

describe('conversion', () => {
  it('makes a pack that verifies, keeping the element types of the checkpoint', async () => {
    const seen: { phase: string; done: number; total: number }[] = [];
    const onProgress = (progress: (typeof seen)[0]) => seen.push(progress);
    expect(await convert({ onProgress })).toEqual({ pack: out, resumedFrom: 0 });
    const converted = seen.filter(({ phase }) => phase === 'convert').map(({ done }) => done);
    expect([converted.at(-1), converted]).toEqual([256, converted.toSorted((a, b) => a - b)]);
    const hashed = seen.filter(({ phase }) => phase === 'hash').at(-1)!;
    expect(hashed.done).toBe(hashed.total);
    await verifyPack(out);
    const manifest = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
    expect(manifest.experts).toMatchObject({ dtype: 'bf16', block_bytes: 131072, experts_per_layer: 64 });
    expect(manifest.experts.matrices).toEqual([
      { name: 'up', shape: [256, 128], offset: 0 },
      { name: 'down', shape: [128, 256], offset: 65536 },
    ]);
    expect(manifest.dense.tensors.map(({ name }: { name: string }) => name).slice(0, 3)).toEqual([
      'embedding',
      'encoder.position_bias',
      'encoder.0.attention_norm',
    ]);
    expect(manifest.experts.layers).toEqual(['encoder.1', 'encoder.3', 'decoder.1', 'decoder.3']);
    expect(existsSync(join(out, 'tokenizer.json'))).toBe(true);
    expect(existsSync(`${out}.partial`)).toBe(false);
  });

  it('leaves no pack when it is interrupted, and starts clean when nothing had reached the disk', async () => {
    const stop = () => {
      throw new Error('enough');
    };
    await expect(convert({ onProgress: stop })).rejects.toThrow('enough');
    expect(existsSync(out)).toBe(false);
    expect((await convert()).pack).toBe(out);
    await verifyPack(out);
  });

  it('goes on where an interrupted run of the same weights had synced', async () => {
    const whole = await convert();
    const reference = readFileSync(join(whole.pack, 'experts.sida'));
    const source = JSON.parse(readFileSync(join(whole.pack, 'manifest.json'), 'utf8')).source;
    // An interrupted run: all but the tail of the experts on disk, no manifest.
    const resumed = join(root, 'resumed');
    cpSync(whole.pack, `${resumed}.partial`, { recursive: true });
    rmSync(join(`${resumed}.partial`, 'manifest.json'));
    truncateSync(join(`${resumed}.partial`, 'experts.sida'), 200 * 131072 + 77);
    writeFileSync(
      join(`${resumed}.partial`, 'journal.json'),
      JSON.stringify({ ...JOURNAL, weights: source.weights, done: 200 }),
    );
    expect(await convert({ out: resumed })).toEqual({ pack: resumed, resumedFrom: 200 });
    expect(readFileSync(join(resumed, 'experts.sida')).equals(reference)).toBe(true);
    await verifyPack(resumed);
  });

  it('does not go on with the work of other weights or types', async () => {
    cpSync(MINI, `${out}.partial`, { recursive: true });
    const journal = { ...JOURNAL, weights: 'other', done: 100 };
    writeFileSync(join(`${out}.partial`, 'journal.json'), JSON.stringify(journal));
    expect((await convert()).resumedFrom).toBe(0);
    expect(existsSync(join(out, 'model.safetensors'))).toBe(false);
  });

  it('starts over where an interrupted run had other types', async () => {
    const wanted = { experts: { dtype: 'int4', group: 64 }, dense: BF16 } as const;
    const whole = await convert({ ...wanted, out: `${out}-whole` });
    const { source } = JSON.parse(readFileSync(join(whole.pack, 'manifest.json'), 'utf8'));
    const interrupted = { version: PACK_VERSION, weights: source.weights, done: 100, ...wanted };
    const resumedFrom = async (journal: object) => {
      rmSync(`${out}.partial`, { recursive: true, force: true });
      cpSync(whole.pack, `${out}.partial`, { recursive: true });
      rmSync(join(`${out}.partial`, 'manifest.json'));
      const text = JSON.stringify({ ...interrupted, ...journal });
      writeFileSync(join(`${out}.partial`, 'journal.json'), text);
      const converted = await convert(wanted);
      rmSync(out, { recursive: true });
      return converted.resumedFrom;
    };
    expect(await resumedFrom({})).toBe(100);
    for (const other of [
      { version: 2 },
      { experts: { dtype: 'int4', group: 32 } },
      { experts: { dtype: 'int8' } },
      { dense: { dtype: 'int8' } },
      { experts: 'int4', dense: 'bf16' },
    ])
      expect(await resumedFrom(other), JSON.stringify(other)).toBe(0);
  });

  it('keeps a finished pack of the same model and refuses anything else in its place', async () => {
    await convert();
    expect((await convert()).pack).toBe(out);
    writeFileSync(join(root, 'a-file'), 'x');
    await expect(convert({ out: join(root, 'a-file') })).rejects.toMatchObject({ code: 'cannot_run' });
  });
});

describe('conversions of one model at once', () => {
  it('end in one sound pack, made once', async () => {
    const results = await Promise.all([convert(), convert(), convert()]);
    expect(results.map(({ pack }) => pack)).toEqual([out, out, out]);
    await verifyPack(out);
    expect(existsSync(`${out}.lock`)).toBe(false);
  });

  it('do not take a pack of other element types for theirs', async () => {
    await convert();
    await expect(convert({ experts: 'f32' })).rejects.toThrow(/not a pack of this model in f32/);
  });
});

describe('verification', () => {
  const packs = { auto: join(root, 'auto'), int4: join(root, 'int4') } as const;
  beforeAll(async () => {
    for (const experts of ['auto', 'int4'] as const) await convert({ experts, out: packs[experts] });
  });
  const copy = (experts: keyof typeof packs = 'auto') => cpSync(packs[experts], out, { recursive: true });
  const editManifest = (change: (manifest: Record<string, never>) => object) => {
    const path = join(out, 'manifest.json');
    writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))));
    return path;
  };

  it.each([
    ['leaves out a file', (files: { name: string }[]) => files.filter(({ name }) => name !== 'dense.sida')],
    [
      'names a path',
      (files: { name: string }[]) => [{ ...files[0], name: '../../../dev/zero' }, ...files.slice(1)],
    ],
  ])('refuses a manifest that %s', async (_, change) => {
    copy();
    editManifest((manifest) => ({ ...manifest, files: change(manifest.files!) }));
    await expect(verifyPack(out)).rejects.toMatchObject({ code: 'pack_invalid' });
  });

  it('finds one flipped bit and names the file', async () => {
    copy();
    const path = join(out, 'experts.sida');
    const bytes = readFileSync(path);
    bytes[12_345_678]! ^= 1;
    writeFileSync(path, bytes);
    await expect(verifyPack(out)).rejects.toThrow(/experts\.sida: sha256: expected [0-9a-f]{64}, found/);
  });

  it('finds a cut file with both sizes', async () => {
    copy();
    truncateSync(join(out, 'dense.sida'), 1000);
    await expect(verifyPack(out)).rejects.toThrow(/dense\.sida: size: expected \d+ bytes, found 1000/);
  });

  it.each([
    [
      'experts',
      { dtype: 'int5' },
      /experts\.dtype: expected f32, bf16, bf16c, int8, int4, mxfp4, q8_0, .*, found "int5"/,
    ],
    ['experts', { group: 7 }, /experts\.group: .* found 7/],
    ['experts', { group: undefined }, /experts\.group: .* found none/],
    ['experts', { dtype: 'int8' }, /experts\.group: expected none beside int8, found 64/],
    [
      'dense',
      { dtype: 'int4', group: 64 },
      /dense\.dtype: expected f32, bf16, int8, mxfp4, .*, found "int4"/,
    ],
    ['dense', { group: 64 }, /dense\.group: expected none beside bf16, found 64/],
  ])('refuses a manifest whose %s are %j', async (section, change, message) => {
    copy('int4');
    const path = editManifest((manifest) => {
      Object.assign(manifest[section]!, change);
      return manifest;
    });
    await expect(verifyPack(out)).rejects.toMatchObject({
      code: 'pack_invalid',
      message: expect.stringMatching(new RegExp(`^${path}: ${message.source}; convert the model again$`)),
    });
  });

  it('refuses a pack of an older version, and says to convert again', async () => {
    copy();
    setVersion(out, 2);
    const message = `${join(out, 'manifest.json')}: version: expected 3, found 2; convert the model again`;
    await expect(verifyPack(out)).rejects.toMatchObject({ code: 'pack_invalid', message });
    const options = { model: out, packDir: root, experts: 'auto' as const };
    await expect(preparePack(options)).rejects.toMatchObject({ code: 'pack_invalid', message });
    // Nothing is overwritten that was not made now.
    await expect(convert()).rejects.toMatchObject({
      code: 'cannot_run',
      message: expect.stringContaining('name another --out or remove it'),
    });
  });
});

describe('first use', () => {
  it('converts once, then finds the pack again', async () => {
    const packDir = join(root, 'packs');
    const options = { model: MINI, packDir, experts: 'auto' as const };
    const first = await preparePack(options);
    let converted = false;
    const onProgress = ({ phase }: { phase: string }) => {
      converted ||= phase === 'convert';
    };
    const second = await preparePack({ ...options, onProgress });
    expect(second).toEqual(first);
    expect(converted).toBe(false);
    expect(isPack(first.pack)).toBe(true);
    expect(first.name).toBe('switch-mini');
    // The bundled predictor was made for these very weights.
    const predictor = readFileSync(join(MINI, 'predictor', 'sida-predictor.json'), 'utf8');
    expect(first.identity.weights).toBe(JSON.parse(predictor).model.weights);
  });

  it('makes a pack of an older version in its own cache again', async () => {
    const options = { model: MINI, packDir: join(root, 'packs5'), experts: 'auto' as const };
    const { pack, fingerprint } = await preparePack(options);
    setVersion(pack, 2);
    expect(await preparePack(options)).toMatchObject({ pack, name: 'switch-mini', fingerprint });
    await verifyPack(pack);
  });

  it('keeps packs of different types apart', async () => {
    const options = { model: MINI, packDir: join(root, 'packs4') };
    const names = [];
    for (const formats of [
      { experts: 'auto' },
      { experts: 'auto', dense: 'int8' },
      { experts: { dtype: 'int4', group: 32 } },
    ] as const) {
      names.push(
        basename((await preparePack({ ...options, ...formats })).pack).replace(
          /-[0-9a-f]{16}-[0-9a-f]{16}$/,
          '',
        ),
      );
    }
    const types = ['bf16', 'bf16-dense-int8', 'int4-g32'];
    expect(names).toEqual(types.map((type) => `switch-mini-${type}`));
  });

  it('refuses a pack directory of other types than were asked for', async () => {
    await convert({ experts: 'int8' });
    const prepared = (formats: object) =>
      preparePack({ model: out, packDir: root, experts: 'auto', ...formats });
    expect((await prepared({ experts: 'int8', dense: 'bf16' })).pack).toBe(out);
    await expect(prepared({ experts: 'int4' })).rejects.toMatchObject({
      code: 'cannot_run',
      message: expect.stringContaining(
        'is packed with experts in int8, not int4-g64; convert the checkpoint',
      ),
    });
    await expect(prepared({ dense: 'int8' })).rejects.toThrow(/with dense in bf16, not int8/);
  });
});
