// What a path that is no model is called, before anything of it is read.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { inspectModel } from '../../../src/checkpoint/inspect-model.js';
import { REPO } from '../../support/sida-process.js';

const MODEL = join(REPO, 'models/olmoe-mini');

it.each(['none', 'none.gguf', 'package.json/none'])('says that %s is not there', (name) => {
  const path = join(REPO, name);
  expect(() => inspectModel(path)).toThrow(`${path}: no such file or directory`);
});

it.each(['config.json', 'model.safetensors'])('names the directory of %s', (name) => {
  expect(() => inspectModel(join(MODEL, name))).toThrow(
    `one file of a checkpoint; name its directory: ${MODEL}`,
  );
});

it('inspects a checkpoint', () => {
  expect(inspectModel(MODEL).shape.family).toBe('olmoe');
});
