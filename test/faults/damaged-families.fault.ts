// The small checkpoint of each family with something wrong in it, as damaged-models has it for one of zeros.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { oracleFixture } from '../support/oracle-fixture.js';
import { familyCases } from './checkpoints/families.js';
import { judge, sida } from './checkpoints/judge.js';
import { fault } from './fault.js';

const FAMILIES = [
  ...['switch-tiny', 'olmoe-tiny', 'mixtral-tiny', 'qwen2-moe-tiny', 'qwen3-moe-tiny', 'gpt-oss-tiny'],
  ...['deepseek-v2-lite-tiny', 'deepseek-v3-tiny', 'glm4-moe-tiny', 'nllb-moe-tiny'],
];
const root = mkdtempSync(join(tmpdir(), 'sida-families-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const run = (directory: string) =>
  sida(['convert', directory, '--out', join(root, 'pack')], join(root, 'peak'));

for (const [turn, name] of FAMILIES.entries()) {
  fault(`a damaged ${name}`, (report) => {
    const model = join(root, name);
    // The oracle's outputs are no part of the model.
    cpSync(oracleFixture(name), model, { recursive: true, filter: (path) => !path.includes('cases.') });
    return judge(familyCases(model, turn), report, { root, model, run });
  });
}
