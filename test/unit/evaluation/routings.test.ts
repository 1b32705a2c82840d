import { expect, it } from 'vitest';
import { ExpertNames } from '../../../src/evaluation/routings.js';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import { SHAPE } from '../predictor/routing-fixture.js';

it('renames every expert of every layer to another one, the same at each start', () => {
  const { experts, stacks } = SHAPE;
  stacks.forEach(({ layers }, stack) => {
    const all = Uint16Array.from({ length: layers * (experts + 1) }, (_, i) => i % (experts + 1));
    const given = all.map((expert) => (expert === experts ? NO_EXPERT : expert));
    const [one, other] = [given.slice(), given.slice()];
    new ExpertNames(SHAPE).rename(stack, one);
    new ExpertNames(SHAPE).rename(stack, other);
    expect(one).toEqual(other);
    for (let layer = 0; layer < layers; layer++) {
      const names = one.subarray(layer * (experts + 1), (layer + 1) * (experts + 1));
      expect(new Set(names).size).toBe(experts + 1);
      names.forEach((name, i) => {
        expect(name === given[i]).toBe(i === experts);
      });
    }
  });
});
