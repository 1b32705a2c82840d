import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hubNameOf, parseHubName, writtenName } from '../../../src/hub/hub-name.js';

describe('a name on the hub', () => {
  it.each([
    ['Qwen/Qwen3-30B-A3B', 'Qwen/Qwen3-30B-A3B', undefined],
    ['hf:a/b', 'a/b', undefined],
    ['a/b_c.d-GGUF:Q4_K_M', 'a/b_c.d-GGUF', 'Q4_K_M'],
    ['a/b:sub/x-00001-of-00002.gguf', 'a/b', 'sub/x-00001-of-00002.gguf'],
  ])('%s has parts', (text, repo, choice) => {
    expect(parseHubName(text)).toEqual({ repo, choice });
    expect(writtenName(parseHubName(text)!)).toBe(text.replace('hf:', ''));
  });

  it.each([
    'a',
    'a/b/c',
    '/a/b',
    './a',
    'a/../b',
    'a/..',
    'a/b..c',
    'a--b/c',
    'a/b:',
    'a/b:c:d',
    'a/b ',
    'a/-b',
    'x:a/b',
  ])('%s is none', (text) => expect(parseHubName(text)).toBeUndefined());
});

describe('a path', () => {
  const folder = mkdtempSync(`${tmpdir()}/sida-names-`);
  const before = process.cwd();
  beforeAll(() => process.chdir(folder));
  afterAll(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true });
  });

  it('is one that is there, or whose directory is there', () => {
    mkdirSync('models/mini', { recursive: true });
    for (const path of ['models/mini', 'models/missing', './models/mini', '/nowhere/x.gguf', 'x.gguf'])
      expect(hubNameOf(path)).toBeUndefined();
    expect(hubNameOf('other/mini')).toEqual({ repo: 'other/mini', choice: undefined });
    expect(hubNameOf('hf:models/mini')).toEqual({ repo: 'models/mini', choice: undefined });
  });
});
