import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { REPO } from '../../support/sida-process.js';

const { withoutIntegrity } = await import(join(REPO, 'scripts/lockfile.mjs'));

it('finds packages without integrity in every workspace and depth, and no links', () => {
  const integrity = 'sha512-x';
  const packages = {
    '': {},
    bench: {},
    'node_modules/bench': { link: true },
    'node_modules/sound': { integrity },
    'node_modules/bare': {},
    'node_modules/sound/node_modules/bare': {},
    'bench/node_modules/sound': { integrity },
    'bench/node_modules/bare': {},
  };
  const bare = Object.keys(packages).filter((path) => path.endsWith('/bare'));
  expect(withoutIntegrity(packages)).toEqual(bare);
});

it('finds none in the lockfile', () => {
  const { packages } = JSON.parse(readFileSync(join(REPO, 'package-lock.json'), 'utf8'));
  expect(withoutIntegrity(packages)).toEqual([]);
});
