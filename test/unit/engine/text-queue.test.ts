import { describe, expect, it } from 'vitest';
import { TextQueue } from '../../../src/engine/text-queue.js';

function queueOf(...texts: [owner: string, bytes: number, arrivedMs: number][]): TextQueue<string> {
  const queue = new TextQueue<string>();
  for (const [index, [owner, bytes, arrivedMs]] of texts.entries()) {
    queue.add({ owner, bytes, arrivedMs, index, text: '', special: false });
  }
  return queue;
}

const order = (queue: TextQueue<string>) => {
  const owners: string[] = [];
  while (queue.size > 0) owners.push(queue.take(0)[0]!.owner);
  return owners.join('');
};

describe('texts that wait', () => {
  it('leave shorter ones first, and in the order of their arrival where they are equal', () => {
    expect(order(queueOf(['a', 300, 0], ['b', 100, 0], ['c', 200, 0]))).toBe('bca');
    expect(order(queueOf(['a', 9, 0], ['b', 9, 0], ['c', 9, 0]))).toBe('abc');
  });

  it('are not passed for ever: age counts as bytes', () => {
    expect(order(queueOf(['a', 4000, 0], ['b', 100, 3000], ['c', 100, 5000]))).toBe('bac');
  });

  it('leave together up to a number of bytes, and one leaves in any case', () => {
    const queue = queueOf(['a', 10, 0], ['b', 20, 0], ['c', 30, 0]);
    expect(queue.take(30).map(({ owner }) => owner)).toEqual(['a', 'b']);
    expect([queue.size, queue.bytes]).toEqual([1, 30]);
    expect(queue.take(1).map(({ owner }) => owner)).toEqual(['c']);
    expect([queue.take(1), queue.size, queue.bytes]).toEqual([[], 0, 0]);
  });

  it('are removed with their owner at once', () => {
    const queue = queueOf(['a', 10, 0], ['b', 20, 0], ['a', 30, 0]);
    queue.remove('a');
    expect([queue.size, queue.bytes]).toEqual([1, 20]);
    expect(order(queue)).toBe('b');
  });
});
