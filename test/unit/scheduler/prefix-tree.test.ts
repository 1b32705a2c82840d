import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PrefixTree } from '../../../src/scheduler/prefix-tree.js';

const PAGE_TOKENS = 2;

interface Prompt {
  tokens: number[];
  /** Whether a running input uses it. */
  used: boolean;
}

function treeOf(prompts: readonly Prompt[]): PrefixTree {
  const tree = new PrefixTree(PAGE_TOKENS);
  for (const [keeper, { tokens, used }] of prompts.entries()) {
    const ids = Int32Array.from(tokens);
    const known = tree.find('', ids, Math.floor(ids.length / PAGE_TOKENS));
    // Nothing may be missing.
    const full = ids.length % PAGE_TOKENS === 0;
    if (known !== null && known.depth * PAGE_TOKENS >= ids.length - (full ? 0 : PAGE_TOKENS - 1)) {
      tree.touch(known);
      if (used) tree.use(known);
      continue;
    }
    const { node } = tree.add('', ids, keeper);
    if (used && node !== null) tree.use(node);
  }
  return tree;
}

it('evicts many pages at once in the order in which it evicts them one by one', () => {
  const prompt = fc.record({
    tokens: fc.array(fc.nat(2), { minLength: 2, maxLength: 9 }),
    used: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(prompt, { maxLength: 30 }), fc.nat(40), (prompts, most) => {
      const [one, many] = [treeOf(prompts), treeOf(prompts)];
      const single = Array.from({ length: most }, () => one.removeLeaves(1)).flat();
      const removed = many.removeLeaves(most);
      expect(removed.map(({ keeper }) => keeper)).toEqual(single.map(({ keeper }) => keeper));
      expect([many.pages, many.unused]).toEqual([one.pages, one.unused]);
      expect(removed.length).toBe(Math.min(most, removed.length + many.unused));
    }),
    { numRuns: 300 },
  );
});
