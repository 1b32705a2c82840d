import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { ModelShape } from '../../../src/native/addon-types.js';
import { heldBy, partsByUse } from '../../../src/placement/shares.js';
import { META, writeTrace } from '../predictor/training/trace-fixture.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-shares-'));
afterAll(() => rmSync(folder, { recursive: true }));

const shape = { firstExperts: [0, 8, 16, 24], experts: 8 } as ModelShape;
const shares = (of: number, parts?: number[][]) =>
  Array.from({ length: of }, (_, i) => [...heldBy({ number: i + 1, of }, shape, parts)]);

it.each([1, 2, 3, 5, 9])('%i shares hold each expert once', (of) => {
  const held = shares(of);
  for (let id = 0; id < 24; id++) expect(held.reduce((sum, share) => sum + share[id]!, 0)).toBe(1);
});

it('shares by index hold every n-th expert of each layer', () => {
  const unequal = { firstExperts: [0, 3, 7] } as ModelShape;
  expect([...heldBy({ number: 1, of: 2 }, unequal)]).toEqual([1, 0, 1, 1, 0, 1, 0]);
});

describe('shares by a trace', () => {
  const weights = META.model.weights;
  /** Each token needs experts 0 and 1 of every layer, or 2 and 3. */
  const record = {
    line: 0,
    input: 4,
    stacks: [2, 1].map((layers) => ({
      tokens: Int32Array.of(1, 2, 3, 4),
      experts: Uint16Array.from({ length: layers * 4 * 3 }, (_, i) => {
        const token = Math.floor(i / 3) % 4;
        return [2 * (token % 2), 2 * (token % 2) + 1, 4 + token][i % 3]!;
      }),
      logits: new Float32Array(layers * 4 * 3),
    })),
  };

  it('part the experts that a token needs together, and hold each once', async () => {
    const trace = join(folder, 'pairs');
    await writeTrace(trace, [record], { topK: 2 });
    const parts = await partsByUse(trace, 2, { name: 'm', weights, shape });
    for (const layer of parts) {
      expect(layer[0]).not.toBe(layer[1]);
      expect(layer[2]).not.toBe(layer[3]);
    }
    const [one, two] = shares(2, parts as number[][]);
    expect(one!.map((held, id) => held + two![id]!)).toEqual(new Array(24).fill(1));
    expect(one!.slice(0, 8).reduce((sum, held) => sum + held)).toBe(4);
  });

  it('need tokens', async () => {
    const trace = join(folder, 'empty');
    await writeTrace(trace, [], { topK: 2 });
    await expect(partsByUse(trace, 2, { name: 'm', weights, shape })).rejects.toThrow(/has no tokens/);
  });

  it('need a trace of the same weights', async () => {
    const trace = join(folder, 'other');
    await writeTrace(trace, [record], { topK: 2 });
    await expect(partsByUse(trace, 2, { name: 'm', weights: '0', shape })).rejects.toThrow(/no trace of m/);
  });
});
