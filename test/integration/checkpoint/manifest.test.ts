import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { z } from 'zod';
import { configFormats, withConfigPack } from '../../../src/checkpoint/config-plan.js';
import { manifestParts } from '../../../src/checkpoint/manifest.js';
import { REPO } from '../../support/server-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-manifest-'));
afterAll(() => rmSync(root, { recursive: true }));

const SHAPES = join(REPO, 'bench/scripts/shapes');
const shapes = readdirSync(SHAPES).filter((name) => name !== 'checkpoints.json');
const layoutSchema = z.object({ dense: z.object({ tensors: z.array(z.unknown()) }) });

it.each(shapes)('reads the manifest of a pack of the shape %s', (name) => {
  const model = join(root, name);
  mkdirSync(model);
  copyFileSync(join(SHAPES, name), join(model, 'config.json'));
  withConfigPack(model, configFormats(model), (pack) => {
    expect(manifestParts(pack, layoutSchema)!.dense.tensors.length).toBeGreaterThan(20);
  });
});
