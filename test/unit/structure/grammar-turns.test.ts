import { describe, expect, it } from 'vitest';
import { GrammarTurns, type WaitingGrammar } from '../../../src/structure/grammar-turns.js';

function turns(...waiting: [owner: string, grammar: string][]) {
  const queue = new GrammarTurns<WaitingGrammar>();
  for (const [owner, grammar] of waiting) queue.add({ owner, grammar });
  const take = (...compiling: [owner: string, grammar: string][]) =>
    queue.take(compiling.map(([owner, grammar]) => ({ owner, grammar })))?.grammar;
  return { queue, take };
}

describe('grammars that wait', () => {
  it('are taken in turns of their owners, those of one owner in order', () => {
    const { take } = turns(['a', '1'], ['a', '2'], ['a', '3'], ['b', '4'], ['c', '5'], ['c', '6']);
    expect(Array.from({ length: 7 }, () => take())).toEqual(['1', '4', '5', '2', '6', '3', undefined]);
  });

  it('are not compiled beside another of the same key, but beside those of other keys and without keys', () => {
    const { take } = turns(['a', '1'], ['a', '2'], ['', '3'], ['', '4'], ['b', '5']);
    expect(take(['a', '0'])).toBe('3');
    expect(take(['', '3'])).toBe('1');
    expect(take(['a', '1'], ['b', '7'])).toBe('4');
    expect(take(['a', '1'], ['b', '7'])).toBeUndefined();
    expect(take(['a', '1'])).toBe('5');
  });

  it('wait while the same grammar is compiled for another', () => {
    const { queue, take } = turns(['', '1'], ['b', '1'], ['', '2']);
    expect([take(['a', '1']), take(['a', '1'])]).toEqual(['2', undefined]);
    expect([queue.count, queue.of(''), queue.of('b')]).toEqual([2, 1, 1]);
  });

  it('are forgotten when they are removed', () => {
    const { queue, take } = turns(['a', '1']);
    const waiting = { owner: 'b', grammar: '2' };
    queue.add(waiting);
    queue.remove(waiting);
    queue.remove(waiting);
    expect([queue.count, queue.of('b'), take(), take()]).toEqual([1, 0, '1', undefined]);
  });
});
