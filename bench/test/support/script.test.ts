import { afterEach, describe, expect, it } from 'vitest';
import { optionsOf, words } from '../../src/support/script.js';

const HELP = `node bench/scripts/x.mjs [--batch 1,2] [--trace DIR…] [--task NAME]
  --rounds 10 --threads N  of each side
  --quick (--rounds 3)     the result goes to build/`;

describe('options', () => {
  const before = process.argv;
  afterEach(() => {
    process.argv = before;
  });
  const given = (...args: string[]) => {
    process.argv = ['node', 'x.mjs', ...args];
    return optionsOf(HELP);
  };

  it('have the defaults that the help shows', () => {
    expect(given()).toEqual({ batch: '1,2', trace: [], rounds: 10, quick: false });
    expect(given('--quick', '--trace', 'a', '--trace', 'b')).toMatchObject({ rounds: 3, trace: ['a', 'b'] });
    expect(given('--quick', '--rounds', '5', '--threads', '2')).toMatchObject({ rounds: 5, threads: 2, quick: true });
    expect(() => given('--round', '5')).toThrow("'--round'");
  });
});

it('words of a command line stay whole where they are put in', () => {
  expect(words`--data ${'a dir/x'} --save ${''} n=${3}`).toEqual(['--data', 'a dir/x', '--save', '', 'n=3']);
});
