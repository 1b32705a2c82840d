// Damaged GGUF files: the command line refuses each in one clear line, at once.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll } from 'vitest';
import { sida } from './checkpoints/command-line.js';
import { GGUF, GGUF_CASES } from './checkpoints/gguf.js';
import { judgeCases } from './checkpoints/refusals.js';
import { fault } from './fault.js';

const FIXTURE = join(import.meta.dirname, '../fixtures/gguf/olmoe.gguf.br');
const root = mkdtempSync(join(tmpdir(), 'sida-gguf-faults-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

fault('F37', 'damaged GGUF files', (report) => {
  const model = join(root, 'sound');
  mkdirSync(model);
  writeFileSync(join(model, GGUF), brotliDecompressSync(readFileSync(FIXTURE)));
  const convert = (directory: string) =>
    sida(['convert', join(directory, GGUF), '--out', join(root, 'pack')], join(root, 'peak'));
  return judgeCases(GGUF_CASES, report, { root, model, run: convert });
});
