import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { predictorChoice } from '../../../src/engine/predictor-choice.js';
import { routingKOf } from '../../../src/engine/routing.js';

describe('the routing of a request', () => {
  const exact = { mode: 'exact', k: 3, predictor: true } as const;
  const predicted = { ...exact, mode: 'predicted' } as const;

  it("is the server's unless the request sets another", () => {
    expect(routingKOf(undefined, exact)).toBe(0);
    expect(routingKOf({ mode: null, k: null }, exact)).toBe(0);
    expect(routingKOf({ mode: 'exact', k: null }, { ...exact, predictor: false })).toBe(0);
    expect(routingKOf({ mode: 'predicted', k: null }, exact)).toBe(3);
    expect(routingKOf({ mode: 'predicted', k: 1 }, exact)).toBe(1);
    expect(routingKOf(undefined, predicted)).toBe(3);
    expect(routingKOf({ mode: null, k: 2 }, predicted)).toBe(2);
  });

  it.each([
    [{ mode: 'exact', k: null }, predicted, 'routing', /routers are not loaded/],
    [{ mode: null, k: 1 }, exact, 'routing_k', /belongs to predicted/],
    [{ mode: 'exact', k: 2 }, predicted, 'routing_k', /belongs to predicted/],
    [{ mode: 'predicted', k: 4 }, exact, 'routing_k', /at most 3, .* got 4/],
    [{ mode: 'predicted', k: 1 }, { ...exact, predictor: false }, 'routing', /needs a predictor/],
  ] as const)('%j is refused', (wish, limits, param, message) => {
    expect(() => routingKOf(wish, limits)).toThrow(
      expect.objectContaining({ code: 'cannot_run', param, message: expect.stringMatching(message) }),
    );
  });
});

describe('the predictor that the options select', () => {
  const root = mkdtempSync(join(tmpdir(), 'sida-choice-'));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const model = join(root, 'model');
  mkdirSync(join(model, 'predictor'), { recursive: true });
  const choose = (predictor: string, hashFunction: 'auto' | 'token' = 'auto') =>
    predictorChoice({ model, predictor, hashFunction });

  it("is none, a directory, or the model's own if that is finished", () => {
    expect(choose('none', 'token')).toBeNull();
    expect(choose('/elsewhere')).toEqual({ directory: '/elsewhere' });
    expect(choose('/elsewhere', 'token')).toEqual({ directory: '/elsewhere', kind: 'token' });
    expect(choose('auto')).toBeNull();
    writeFileSync(join(model, 'predictor', 'sida-predictor.json'), '{}');
    expect(choose('auto')).toEqual({ directory: join(model, 'predictor') });
  });
});
