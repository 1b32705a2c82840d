import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lastTurn, nextTurn } from '../../../src/scheduler/turns.js';

const turns = (owners: string) => [...owners].map((owner, order) => ({ owner, order, dueMs: 0 }));

describe('the next turn', () => {
  const next = (owners: string, running: Record<string, number>) =>
    nextTurn(turns(owners), (owner) => running[owner] ?? 0)?.order;

  it('is that of the key that has least', () => {
    expect(next('aabc', { a: 2, b: 1, c: 0 })).toBe(3);
    expect(next('aabc', { a: 2, b: 1, c: 1 })).toBe(2);
  });

  it('is what is due first of its key, and dues choose no key', () => {
    const waiting = fc.array(fc.record({ owner: fc.constantFrom('a', 'b', 'c'), dueMs: fc.nat(3) }), {
      minLength: 1,
    });
    const held = fc.record({ a: fc.nat(2), b: fc.nat(2), c: fc.nat(2) });
    fc.assert(
      fc.property(waiting, held, (dues, has) => {
        const of = (owner: string) => has[owner as keyof typeof has];
        const all = dues.map((each, order) => ({ ...each, order }));
        const found = nextTurn(all, of)!;
        expect(found.owner).toBe(nextTurn(turns(dues.map(({ owner }) => owner).join('')), of)!.owner);
        const own = all.filter(({ owner }) => owner === found.owner);
        const soonest = Math.min(...own.map(({ dueMs }) => dueMs));
        expect(found).toBe(own.find(({ dueMs }) => dueMs === soonest));
      }),
    );
  });

  it('is that of the oldest where keys have equally much', () => {
    expect(next('bac', {})).toBe(0);
    expect(nextTurn(turns('abc').reverse(), () => 1)).toMatchObject({ owner: 'a', order: 0 });
    expect(next('', {})).toBeUndefined();
  });
});

describe('the last turn, which gives way', () => {
  const last = (owners: string) => {
    const found = lastTurn(turns(owners));
    return found && [found.each.order, found.ofOwner];
  };

  it('is that of the youngest of the key that has most', () => {
    expect([last('aaab'), last('baaa'), last('abababaa')]).toEqual([
      [2, 3],
      [3, 3],
      [7, 5],
    ]);
  });

  it('is that of the youngest of all where keys have equally many, so never that of the oldest', () => {
    expect([last('aabb'), last('abba'), last('ab'), last('a')]).toEqual([
      [3, 2],
      [3, 2],
      [1, 1],
      [0, 1],
    ]);
    expect(last('')).toBeUndefined();
  });
});
