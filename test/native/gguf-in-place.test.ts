// The experts of a quantized GGUF file stay in it when it is prepared for serving: nothing writes them a second time,
// and a pack gives the same answers. The public package wrote the files (test/fixtures/gguf).
import { cpSync, existsSync, readFileSync, readlinkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { cachedPacks, removePack } from '../../src/checkpoint/cached-packs.js';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { linkGguf } from '../../src/checkpoint/in-place.js';
import { type PreparedPack, preparePack } from '../../src/checkpoint/prepare-pack.js';
import { verifyWeights } from '../../src/checkpoint/verify-weights.js';
import { addon, fresh, openEngine, passOf } from './fixture.js';

const FIXTURES = join(import.meta.dirname, '../fixtures/gguf');
const FILES = ['olmoe.q8_0.gguf', 'olmoe.q4_0.gguf', 'olmoe.mxfp4.gguf', 'qwen3_moe.q8_0.gguf'];
const TOKENS = Int32Array.from({ length: 40 }, (_, i) => 3 + ((i * 7) % 45));
const LIMITS = { maxBatchTokens: 64, kvTokens: 128, threads: 1 };

function fileOf(name: string): string {
  const path = join(fresh(), name);
  writeFileSync(path, brotliDecompressSync(readFileSync(join(FIXTURES, `${name}.br`))));
  return path;
}

function logitsOf(pack: string, share: number, readChunkBytes = 0): Buffer {
  const engine = openEngine(pack, LIMITS, share, readChunkBytes > 0 ? { readChunkBytes } : {});
  const { logits } = engine.runBatch(passOf(TOKENS, 1, { logitRows: Int32Array.from(TOKENS.keys()) }), null);
  engine.close();
  return Buffer.from(logits!.buffer);
}

async function prepare(model: string, packDir: string): Promise<PreparedPack & { lines: string[] }> {
  const lines: string[] = [];
  const prepared = await preparePack({ model, packDir, experts: 'auto', onLine: (line) => lines.push(line) });
  return { ...prepared, lines };
}

describe('a quantized GGUF file', () => {
  it.each(FILES)('%s keeps its experts, and answers as its pack at every budget', async (name) => {
    const model = fileOf(name);
    expect(addon.inspectCheckpoint(model).keepsExperts).toBe(true);
    const { pack, lines } = await prepare(model, fresh());
    expect(existsSync(join(pack, 'experts.sida'))).toBe(false);
    expect(lines).toEqual([
      expect.stringMatching(/^The experts of \S+ stay in \S+; packs [\d.]+ KiB into .* where .* are free$/),
    ]);
    const { experts } = await verifyWeights({ model, pack });
    expect(experts.largest).toBe(0);
    const copy = await convertCheckpoint({
      model,
      out: join(fresh(), 'pack'),
      experts: 'auto',
      dense: 'auto',
    });
    const wanted = logitsOf(copy.pack, 1);
    for (const share of [0, 0.4, 1]) {
      for (const chunk of [0, 4096]) expect(logitsOf(pack, share, chunk).equals(wanted)).toBe(true);
    }
  });

  it('is found again where it was moved, without other work', async () => {
    const model = fileOf(FILES[0]!);
    const packDir = fresh();
    const first = await prepare(model, packDir);
    const moved = join(fresh(), 'olmoe.q8_0.gguf');
    renameSync(model, moved);
    const second = await prepare(moved, packDir);
    expect(second).toMatchObject({ pack: first.pack, fingerprint: first.fingerprint, lines: [] });
    expect(logitsOf(second.pack, 1)).toHaveLength(logitsOf(first.pack, 0).length);
  });

  it('says what it is for', async () => {
    const model = fileOf(FILES[0]!);
    expect((await prepare(model, fresh())).description).toBeUndefined();
    const bytes = readFileSync(model);
    // The tensors stay aligned.
    const entry = Buffer.alloc(64);
    entry.writeBigUInt64LE(19n, 0);
    entry.write('general.description', 8);
    entry.writeUInt32LE(8, 27);
    entry.writeBigUInt64LE(25n, 31);
    entry.write('It knows nouns. Not more!', 39);
    bytes.writeBigUInt64LE(bytes.readBigUInt64LE(16) + 1n, 16);
    writeFileSync(model, Buffer.concat([bytes.subarray(0, 24), entry, bytes.subarray(24)]));
    expect((await prepare(model, fresh())).description).toBe('It knows nouns. Not more!');
  });

  it('stays when its pack is removed', async () => {
    const packDir = fresh();
    const { pack } = await prepare(fileOf(FILES[0]!), packDir);
    const model = join(fresh(), `${basename(pack)}-copy.experts.gguf`);
    renameSync(readlinkSync(join(pack, 'experts.gguf')), model);
    await linkGguf(pack, model);
    // This process holds the pack that it has opened.
    cpSync(pack, `${pack}-copy`, { recursive: true, verbatimSymlinks: true });
    rmSync(join(`${pack}-copy`, 'use.lock'), { force: true });
    const listed = cachedPacks(packDir).find((each) => each.pack === basename(`${pack}-copy`))!;
    expect(await removePack(packDir, listed)).toBe(true);
    expect([existsSync(`${pack}-copy`), existsSync(model)]).toEqual([false, true]);
  });

  it('with other weights has another fingerprint, and a pack that links to it is refused', async () => {
    const model = fileOf(FILES[0]!);
    const { pack, fingerprint } = await prepare(model, fresh());
    const other = Buffer.from(readFileSync(model));
    // A code of the last tensor.
    other.writeUInt8(other.at(-1)! ^ 1, other.length - 1);
    writeFileSync(model, other);
    const again = await prepare(model, fresh());
    expect(again.fingerprint).not.toBe(fingerprint);
    await expect(prepare(pack, fresh())).rejects.toMatchObject({
      code: 'pack_invalid',
      message: expect.stringMatching(
        /experts\.gguf: expected the weights \w{64}, found \w{64}; convert the model/,
      ),
    });
  });

  it('is packed where other element types are asked for, or its experts are no blocks', async () => {
    const model = fileOf(FILES[0]!);
    const { pack } = await preparePack({ model, packDir: fresh(), experts: 'bf16' });
    expect(existsSync(join(pack, 'experts.sida'))).toBe(true);
    expect(addon.inspectCheckpoint(fileOf('olmoe.bf16.gguf')).keepsExperts).toBe(false);
  });
});
