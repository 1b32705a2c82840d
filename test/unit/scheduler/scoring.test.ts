import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SidaError } from '../../../src/errors.js';
import type { ScoringPlan } from '../../../src/protocol/item-work.js';
import { LabelScores, planScoring } from '../../../src/scheduler/scoring.js';

const [START, END] = [0, 1];
const plan = (labels: number[][]) => planScoring(labels, START, END);
const inputs = (scoring: ScoringPlan) => scoring.inputs.map(({ tokens }) => tokens);

describe('scoring plan', () => {
  it('reads each token of long labels a few times', () => {
    let reads = 0;
    const counting: ProxyHandler<number[]> = {
      get: (list, key, receiver) => {
        if (typeof key === 'string' && /^\d+$/.test(key)) reads += 1;
        return Reflect.get(list, key, receiver);
      },
    };
    const tokens = 500;
    const labels = Array.from({ length: 64 }, (_, label) =>
      Array.from({ length: tokens }, (_, at) => 5 + ((label * at) % 900)),
    );
    expect(plan(labels.map((list) => new Proxy(list, counting))).labels).toBe(64);
    // A key of each prefix would read half of its label for each token.
    expect(reads).toBeGreaterThan(0);
    expect(reads).toBeLessThan(8 * 64 * tokens);
  });

  it('is checked before its rows are made', () => {
    const refuse = new Error('too many pages');
    let rows = 0;
    const check = (fed: ReturnType<typeof plan>['inputs']) => {
      rows = fed.reduce((sum, input) => sum + input.rows.length, 0);
      expect(fed.map(({ tokens }) => tokens)).toEqual([
        [START, 5],
        [START, 7],
      ]);
      throw refuse;
    };
    const labels = [
      [5, 6],
      [5, 8],
      [7, 8],
    ];
    expect(() => planScoring(labels, START, undefined, check)).toThrow(refuse);
    expect(rows).toBe(0);
  });

  it('scores single-token labels with one decoder token', () => {
    const scoring = plan([[5], [6], [7]]);
    expect(inputs(scoring)).toEqual([[START]]);
    expect(scoring.inputs[0]!.rows).toEqual([
      {
        position: 0,
        targets: [
          { label: 0, step: 0, token: 5 },
          { label: 1, step: 0, token: 6 },
          { label: 2, step: 0, token: 7 },
        ],
      },
    ]);
  });

  it('shares the rows of an input that is a prefix of another', () => {
    const scoring = plan([[51, 3466], [3466]]);
    expect(inputs(scoring)).toEqual([[START, 51]]);
    expect(
      scoring.inputs[0]!.rows.map(({ targets }) => targets.map(({ label, token }) => [label, token])),
    ).toEqual([
      [
        [0, 51],
        [1, 3466],
      ],
      [[0, 3466]],
    ]);
  });

  it('adds the end token to all labels if one is a prefix of another', () => {
    const scoring = plan([[5], [5, 6], [7]]);
    expect(inputs(scoring)).toEqual([
      [START, 5, 6],
      [START, 7],
    ]);
    const asked = scoring.inputs.flatMap(({ rows }) => rows.flatMap(({ targets }) => targets));
    expect(asked.filter(({ token }) => token === END)).toHaveLength(3);
    expect(asked).toHaveLength(7);
  });

  it.each([
    ['the same label twice', [[5, 6], [7], [5, 6]], 'labels[0] and labels[2] are the same'],
    ['a label without tokens', [[5], []], 'labels[1] has no tokens'],
  ])('refuses %s', (_, labels, message) => {
    expect(() => plan(labels)).toThrow(message);
    try {
      plan(labels);
    } catch (error) {
      expect(error).toMatchObject({ code: 'invalid_request', param: 'labels' });
      expect(error).toBeInstanceOf(SidaError);
    }
  });

  it('asks each row once and returns the sum of its own tokens for every label', () => {
    const ids = fc.array(fc.integer({ min: 2, max: 4 }), { minLength: 1, maxLength: 4 });
    const distinct = fc.uniqueArray(ids, { minLength: 1, maxLength: 8, selector: (label) => label.join() });
    // Any value that depends on the whole prefix and the token, as a log-probability of a model does.
    const logprob = (prefix: number[], token: number) =>
      -[...prefix, token].reduce((hash, id) => (hash * 31 + id) % 1009, 7) / 64;
    fc.assert(
      fc.property(distinct, (labels) => {
        const scoring = plan(labels);
        const scores = new LabelScores(scoring.labels);
        const prefixes = new Set<string>();
        for (const { tokens, rows } of scoring.inputs) {
          for (const { position, targets } of rows) {
            const prefix = tokens.slice(0, position + 1);
            expect(prefixes.has(prefix.join())).toBe(false);
            prefixes.add(prefix.join());
            for (const target of targets) scores.set(target, logprob(prefix, target.token));
          }
        }
        const clash = labels.some((a) =>
          labels.some((b) => b !== a && b.slice(0, a.length).join() === a.join()),
        );
        const wanted = labels.map((label) => {
          const all = clash ? [...label, END] : label;
          return all.reduce((sum, token, i) => sum + logprob([START, ...all.slice(0, i)], token), 0);
        });
        expect(scores.sums()).toEqual(wanted);
      }),
    );
  });
});
