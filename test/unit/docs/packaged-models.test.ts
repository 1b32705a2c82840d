// What the npm package says of models: its documents and its help name only those that it brings.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
const { files }: { files: string[] } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const LEFT_OUT = files.filter((path) => path.startsWith('!models/')).map((path) => path.slice(1));

const textsOf = (folder: string) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(md|ts)$/.test(name))
    .map((name) => `${folder}/${name}`);

it('names no model that the package leaves out', () => {
  expect(LEFT_OUT.length).toBeGreaterThan(0);
  const named = [...textsOf('docs'), ...textsOf('src')].flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    return LEFT_OUT.filter((model) => text.includes(model)).map((model) => `${file}: ${model}`);
  });
  expect(named).toEqual([]);
});
