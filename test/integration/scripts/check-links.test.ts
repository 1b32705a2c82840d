// `npm run lint:docs` finds what is broken in Markdown: links, anchors, and paths in backticks and commands.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

const SCRIPT = resolve('scripts/check-links.mjs');
let repository: string;

beforeEach(() => {
  repository = mkdtempSync(join(tmpdir(), 'sida-links-'));
  execFileSync('git', ['init', '-q'], { cwd: repository });
});

afterEach(() => rmSync(repository, { recursive: true, force: true }));

function checked(files: Record<string, string>): { code: number | null; text: string } {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(repository, dirname(name)), { recursive: true });
    writeFileSync(join(repository, name), text);
  }
  const { status, stdout, stderr } = spawnSync('node', [SCRIPT], { cwd: repository, encoding: 'utf8' });
  return { code: status, text: stdout + stderr };
}

it('accepts links, anchors, paths, patterns and what .gitignore names', () => {
  const page = [
    '# A page: with `code`, twice',
    '# A page: with `code`, twice',
    '[this](#a-page-with-code-twice-1) [other](docs/other.md#über-uns) [out](https://example.org/x)',
    '`src/one.ts`, `src/*.ts`, `src/{one,two}.ts`, `src/NAME.ts`, `src/`, `src/built/out.js`, `[no](link.md)`',
    '```',
    '[no](link.md)',
    'node src/one.ts',
    '```',
  ].join('\n');
  const { code, text } = checked({
    'README.md': page,
    'docs/other.md': '## Über uns',
    'src/one.ts': '',
    '.gitignore': 'src/built/',
  });
  expect(text).toBe('links: 2 pages, none broken\n');
  expect(code).toBe(0);
});

it.each([
  ['a link', '[x](docs/other.md)', 'README.md:1: docs/other.md leads to docs/other.md, which is not there'],
  ['an anchor', '[x](#where)', 'README.md:1: #where: README.md has no heading #where'],
  ['a path in backticks', 'See `src/two.ts`.', 'README.md:1: `src/two.ts` is not in the repository'],
  [
    'a path in a command',
    '```\nnode src/two.ts --all\n```',
    'README.md:2: `src/two.ts` is not in the repository',
  ],
  [
    'a path in the command that made a table',
    '<!-- table speed -->\n`node src/two.ts --all` · commit 1234567\n<!-- end -->\n',
    'README.md:2: `src/two.ts` is not in the repository',
  ],
])('refuses %s that leads nowhere, with its line', (_, page, problem) => {
  const { code, text } = checked({ 'README.md': page, 'src/one.ts': '' });
  expect(text.split('\n')[0]).toBe(problem);
  expect(code).toBe(1);
});
