import fc from 'fast-check';
import { expect, it } from 'vitest';
import { expertSet, newIn, union } from '../../../src/predictor/expert-set.js';

const needs = fc.array(fc.constantFrom(0, 0.2, 0.49, 0.5, 0.9, 1), { maxLength: 100 });
const tableOf = (need: number[]) => ({ need: Float32Array.from(need) });
const members = (need: number[]) => new Set(need.flatMap((chance, id) => (chance >= 0.5 ? [id] : [])));

it('holds the experts that are rather needed than not, those of the second table behind those of the first', () => {
  fc.assert(
    fc.property(needs, needs, (first, second) => {
      const whole = members([...first, ...second]);
      expect(newIn(expertSet([tableOf(first), tableOf(second)]), expertSet([]))).toBe(whole.size);
      expect(expertSet([tableOf(first), tableOf(second)])).toEqual(
        expertSet([tableOf([...first, ...second])]),
      );
    }),
  );
});

it('counts and unites like sets, of different lengths too', () => {
  fc.assert(
    fc.property(needs, needs, (a, b) => {
      const [setA, setB] = [a, b].map((need) => expertSet([tableOf(need)])) as [Uint32Array, Uint32Array];
      const known = members(b);
      expect(newIn(setA, setB)).toBe([...members(a)].filter((id) => !known.has(id)).length);
      const both = union(setA, setB);
      expect(newIn(both, new Uint32Array())).toBe(new Set([...members(a), ...known]).size);
      expect([newIn(setA, both), newIn(setB, both)]).toEqual([0, 0]);
    }),
  );
});
