// The small checkpoint of each family with something wrong in it, as F37-checkpoints.fault.ts has it for one of zeros.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { oracleFixture } from '../support/oracle-fixture.js';
import { sida } from './checkpoints/command-line.js';
import { familyCases } from './checkpoints/families.js';
import { judgeCases } from './checkpoints/refusals.js';
import { fault } from './fault.js';

const FIXTURES = [
  ...['switch-tiny', 'olmoe-tiny', 'mixtral-tiny', 'qwen2-moe-tiny', 'qwen3-moe-tiny', 'gpt-oss-tiny'],
  ...['deepseek-v2-lite-tiny', 'deepseek-v3-tiny', 'glm4-moe-tiny', 'nllb-moe-tiny'],
];
const root = mkdtempSync(join(tmpdir(), 'sida-families-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

for (const [turn, name] of FIXTURES.entries()) {
  const fixture = oracleFixture(name);
  fault('F37', `a damaged ${name}`, (report) => {
    // The sound model is packed beside the others. The oracle's outputs are no part of it.
    const model = join(root, 'sound');
    rmSync(model, { recursive: true, force: true });
    cpSync(fixture, model, { recursive: true, filter: (path) => !path.includes('cases.') });
    const convert = (directory: string) =>
      sida(['convert', directory, '--out', join(root, 'pack')], join(root, 'peak'));
    return judgeCases(familyCases(model, turn), report, { root, model, run: convert });
  });
}
