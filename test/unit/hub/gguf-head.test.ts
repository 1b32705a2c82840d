import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';
import { ggufHead } from '../../../src/hub/model-head.js';
import { loadAddon } from '../../../src/native/addon.js';
import { writeGguf } from '../../support/gguf-writer.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-head-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('knows where the head of a GGUF file ends, and no earlier', () => {
  const path = join(folder, 'x.gguf');
  writeGguf(path, { 'general.architecture': 'olmoe', 'olmoe.block_count': 3, 'olmoe.epsilon': 1e-5 }, [
    { name: 'first', type: 'F32', dimensions: [32] },
    { name: 'the last', type: 'Q8_0', dimensions: [32, 2, 4] },
  ]);
  const file = readFileSync(path);
  // The last tensor ends with its dimensions, type and offset.
  const end = file.indexOf('the last') + 'the last'.length + 4 + 3 * 8 + 4 + 8;
  for (let length = 0; length < end; length++)
    expect(ggufHead(file.subarray(0, length)), `${length}`).toBeUndefined();
  for (const length of [end, end + 1, file.length]) expect(ggufHead(file.subarray(0, length))).toBe(end);
});

it('skips the arrays of a tokenizer', () => {
  const packed = readFileSync(join(import.meta.dirname, '../../fixtures/gguf/olmoe.gguf.br'));
  const file = brotliDecompressSync(packed);
  const path = join(folder, 'olmoe.gguf');
  writeFileSync(path, file);
  const { metadata, tensors } = loadAddon().readGguf(path);
  expect(Object.values(metadata).some((value) => Array.isArray(value))).toBe(true);
  const aligned = (bytes: number) => Math.ceil(bytes / 32) * 32;
  const data = tensors.reduce((sum, { bytes }) => sum + aligned(bytes), 0);
  expect(aligned(ggufHead(file)!) + data).toBe(aligned(file.length));
});

it('gives up on counts that lead nowhere', () => {
  expect(ggufHead(Buffer.alloc(4096, 0xff))).toBeUndefined();
});
