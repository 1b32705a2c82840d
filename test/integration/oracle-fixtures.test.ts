// A clone alone has the oracle's fixture of every family, whole.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { oracleFixture, unpacked } from '../support/oracle-fixture.js';
import { REPO } from '../support/sida-process.js';

/** Families whose arithmetic is that of another: the native oracle runs its fixture under their name. */
const SAME_ARITHMETIC = { glm4_moe_lite: 'deepseek_v3' };

const root = mkdtempSync(join(tmpdir(), 'sida-fixtures-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

it('has a fixture of every family', () => {
  const fixtures = join(REPO, 'test/fixtures');
  const archived = readdirSync(join(fixtures, 'oracle')).map((name) => name.replace('.tar.gz', ''));
  const names = [...archived, ...readdirSync(fixtures).filter((name) => name.includes('-tiny'))];
  const types = names.map((name) => {
    const directory = oracleFixture(name);
    expect(directory.startsWith(join(REPO, '/')), directory).toBe(true);
    for (const file of ['model.safetensors', 'cases.safetensors', 'cases.json']) {
      expect(existsSync(join(directory, file)), `${directory}/${file}`).toBe(true);
    }
    return JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8')).model_type.replace('-', '_');
  });
  const sources = readdirSync(join(REPO, 'native/src/spec/families'), { withFileTypes: true });
  const families = sources.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  for (const other of Object.values(SAME_ARITHMETIC)) expect(types).toContain(other);
  expect([...new Set([...types, ...Object.keys(SAME_ARITHMETIC)])].sort()).toEqual(families.sort());
});

it('unpacks an archive once, and leaves nothing half unpacked', () => {
  const archive = join(REPO, 'test/fixtures/oracle/gpt-oss-tiny.tar.gz');
  const folder = unpacked(archive, root);
  writeFileSync(join(folder, 'mark'), '');
  expect(unpacked(archive, root)).toBe(folder);
  expect(readdirSync(root)).toEqual([folder.slice(root.length + 1)]);
  expect(readdirSync(folder).sort()).toEqual(['gpt-oss-tiny', 'mark']);
  const broken = join(root, 'broken.tar.gz');
  writeFileSync(broken, readFileSync(archive).subarray(0, 1000));
  expect(() => unpacked(broken, root)).toThrow(/tar .* failed/);
  expect(readdirSync(root)).toHaveLength(2);
});
