import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TextQueue } from '../../../src/engine/text-queue.js';

function queueOf(...texts: [owner: string, bytes: number][]): TextQueue<string> {
  const queue = new TextQueue<string>();
  for (const [index, [owner, bytes]] of texts.entries()) add(queue, owner, bytes, index);
  return queue;
}

function add(queue: TextQueue<string>, owner: string, bytes: number, index = 0) {
  queue.add({ owner, bytes, index, work: { text: '', special: false } });
}

const order = (queue: TextQueue<string>) => {
  const owners: string[] = [];
  while (queue.size > 0) owners.push(queue.take(0)[0]!.owner);
  return owners.join('');
};

describe('texts that wait', () => {
  it('leave in the order of their arrival, job by job in turn', () => {
    expect(order(queueOf(['a', 300], ['b', 100], ['c', 200]))).toBe('abc');
    const texts = ['a', 'a', 'a', 'b', 'c'].map((owner): [string, number] => [owner, 9]);
    expect(order(queueOf(...texts))).toBe('abcaa');
  });

  it('of a job leave together, and what is left of it waits behind the other jobs', () => {
    const queue = queueOf(['a', 10], ['a', 10], ['a', 10], ['b', 10], ['b', 10], ['c', 10]);
    const taken = () => queue.take(25).map(({ owner, index }) => `${owner}${index}`);
    expect([taken(), taken(), taken()]).toEqual([
      ['a0', 'a1'],
      ['b3', 'b4'],
      ['c5', 'a2'],
    ]);
  });

  it('wait no more turns than there are jobs before them', () => {
    const step = fc.record({ job: fc.nat(9), bytes: fc.integer({ min: 1, max: 9 }), takes: fc.nat(2) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const queue = new TextQueue<string>();
        const since = new Map<string, { turn: number; before: number }>();
        let turn = 0;
        for (const [at, { job, bytes, takes }] of steps.entries()) {
          const owner = `${job} of ${Math.floor(at / 10)}`;
          if (!since.has(owner)) since.set(owner, { turn, before: since.size });
          add(queue, owner, bytes, at);
          for (let i = 0; i < takes; i += 1) {
            const [text] = queue.take(0);
            if (text === undefined) break;
            turn += 1;
            const begun = since.get(text.owner)!;
            expect(turn - begun.turn).toBeLessThanOrEqual(begun.before + 1);
            since.delete(text.owner);
            queue.remove(text.owner);
          }
        }
      }),
    );
  });

  it('leave together up to a number of bytes, and one leaves in any case', () => {
    const queue = queueOf(['a', 10], ['b', 20], ['c', 30]);
    expect(queue.take(30).map(({ owner }) => owner)).toEqual(['a', 'b']);
    expect([queue.size, queue.bytes]).toEqual([1, 30]);
    expect(queue.take(1).map(({ owner }) => owner)).toEqual(['c']);
    expect([queue.take(1), queue.size, queue.bytes]).toEqual([[], 0, 0]);
  });

  it('are removed with their owner at once', () => {
    const queue = queueOf(['a', 10], ['b', 20], ['a', 30]);
    queue.remove('a');
    expect([queue.size, queue.bytes]).toEqual([1, 20]);
    expect(order(queue)).toBe('b');
  });
});
