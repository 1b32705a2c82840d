import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readModelFile } from '../../../src/files/model-file.js';
import { makeFifo } from '../../support/fifo.js';

it('a FIFO is refused as a file of a model, without waiting for a writer', () => {
  const model = mkdtempSync(join(tmpdir(), 'sida-fifo-'));
  makeFifo(join(model, 'config.json'));
  expect(() => readModelFile(model, 'config.json', { mostBytes: 100 })).toThrow(
    'config.json: expected a regular file, found a FIFO',
  );
  rmSync(model, { recursive: true });
});
