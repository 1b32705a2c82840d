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
  it('leave shorter ones first, and in the order of their arrival where they are equal', () => {
    expect(order(queueOf(['a', 300], ['b', 100], ['c', 200]))).toBe('bca');
    expect(order(queueOf(['a', 9], ['b', 9], ['c', 9]))).toBe('abc');
  });

  it('of several jobs leave in turns', () => {
    const texts = ['a', 'a', 'a', 'b', 'c'].map((owner): [string, number] => [owner, 9]);
    expect(order(queueOf(...texts))).toBe('abcaa');
  });

  it('are passed a few times at most by shorter ones that keep coming', () => {
    const queue = queueOf(['long', 4000]);
    let turns = 0;
    for (let owner = ''; owner !== 'long'; turns += 1) {
      add(queue, `short ${turns}`, 1);
      add(queue, `other ${turns}`, 1);
      owner = queue.take(0)[0]!.owner;
    }
    expect(turns).toBe(9);
  });

  it('wait no more turns than there are jobs before them, and a few', () => {
    const step = fc.record({ job: fc.nat(9), bytes: fc.integer({ min: 1, max: 9 }), takes: fc.nat(2) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const queue = new TextQueue<string>();
        const since = new Map<string, { turn: number; before: number }>();
        let turn = 0;
        let jobs = new Set<string>();
        for (const [at, { job, bytes, takes }] of steps.entries()) {
          const owner = `${job} of ${Math.floor(at / 10)}`;
          if (!jobs.has(owner)) since.set(owner, { turn, before: jobs.size });
          jobs.add(owner);
          add(queue, owner, bytes, at);
          for (let i = 0; i < takes; i += 1) {
            const [text] = queue.take(0);
            if (text === undefined) break;
            turn += 1;
            const begun = since.get(text.owner)!;
            expect(turn - begun.turn).toBeLessThanOrEqual(begun.before + 9);
            jobs = new Set([...jobs].filter((each) => each !== text.owner));
            since.delete(text.owner);
            // The rest of the job waits for its next turn.
            if (queue.size > 0) queue.remove(text.owner);
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
