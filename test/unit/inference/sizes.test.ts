import { describe, expect, it } from 'vitest';
import { type SizeOptions, sizesOf } from '../../../src/inference/sizes.js';
import type { BatchLimits, MemoryPlan, PackFormats } from '../../../src/native/addon-types.js';

const GIB = 1024 ** 3;
const KIB = 1024;
/** Of a token in the KV cache. */
const TOKEN = 96 * KIB;
const DENSE = 2 * GIB;
const EXPERTS = 6144;
const SLOT = Math.round((16 * GIB) / EXPERTS);

/** A model of 18 GiB whose own context is `contextTokens`, and whose cache has `states` bytes of recurrent states. */
function planner(contextTokens: number | null = 40_960, states = 0) {
  const asked: BatchLimits[] = [];
  const plan = (limits: BatchLimits): MemoryPlan => {
    asked.push(limits);
    const kvCache = states + limits.kvTokens * TOKEN;
    const fixed = DENSE + kvCache;
    return {
      ...{ kvCache, fixed, contextTokens, experts: EXPERTS, slot: SLOT, expertBytes: SLOT * EXPERTS },
      smallest: fixed + SLOT,
      resident: fixed + SLOT * EXPERTS,
    } as MemoryPlan;
  };
  return { plan, asked };
}

const OPTIONS: SizeOptions = {
  memoryBudget: 'auto',
  context: 'auto',
  kvTokens: 'auto',
  maxBatchTokens: 2048,
  kv: 'bf16',
  kvWindows: 1,
  kvStates: 4,
  threads: 2,
  device: 'cpu',
  routing: 'exact',
  activations: 'auto',
};
const F32: PackFormats = { experts: { dtype: 'bf16' }, dense: { dtype: 'f32' } };
const Q4: PackFormats = { experts: { dtype: 'q4_k' }, dense: { dtype: 'bf16' } };

const sizes = (free: number, more: Partial<SizeOptions> = {}, context?: number | null) =>
  sizesOf(planner(context).plan, { ...OPTIONS, ...more }, F32, free);

describe('the budget', () => {
  it('is what everything needs where the machine has it', () => {
    const { budgetBytes, plan } = sizes(64 * GIB);
    expect(budgetBytes).toBe(plan.resident);
  });

  it('leaves a tenth of what is free, and at least 512 MiB', () => {
    expect(sizes(20 * GIB).budgetBytes).toBe(18 * GIB);
    expect(sizes(4 * GIB).budgetBytes).toBe(3.5 * GIB);
  });

  it('is the smallest workable one where less is free', () => {
    const { budgetBytes, plan } = sizes(GIB);
    expect(budgetBytes).toBe(plan.smallest);
  });

  it('is the one that was written, where one was', () => {
    expect(sizes(GIB, { memoryBudget: '500GiB' }).budgetBytes).toBe(500 * GIB);
    const { budgetBytes, plan } = sizes(GIB, { memoryBudget: '50%' });
    expect(budgetBytes).toBe(plan.fixed + plan.expertBytes / 2);
  });
});

describe('the context', () => {
  it("is the model's own where its KV cache fits into a tenth of the budget", () => {
    expect(sizes(64 * GIB)).toMatchObject({ contextTokens: 40_960, kvTokens: 40_960 });
    expect(sizes(64 * GIB, {}, 1024)).toMatchObject({ contextTokens: 1024, kvTokens: 3072 });
  });

  it('is what a tenth of the budget holds otherwise, in thousands', () => {
    // A tenth of 18 GiB is 19,660 tokens of 96 KiB.
    expect(sizes(20 * GIB)).toMatchObject({ contextTokens: 19 * 1024, kvTokens: 19 * 1024 });
  });

  it('is 1.5 passes at least, and never too large for the budget', () => {
    expect(sizes(3 * GIB)).toMatchObject({ contextTokens: 3072, kvTokens: 3072 });
    const { plan } = sizes(64 * GIB, { memoryBudget: '1B' });
    const lean = sizes(64 * GIB, { memoryBudget: String(plan.smallest) });
    expect(lean.plan.smallest).toBe(lean.budgetBytes);
  });

  it('leaves room for recurrent states, which do not grow with it', () => {
    const states = 2 * GIB;
    const { plan } = planner(undefined, states);
    for (const more of [1, 64 * KIB * KIB, GIB]) {
      const smallest = DENSE + states + 3072 * TOKEN + SLOT;
      const options = { ...OPTIONS, memoryBudget: String(smallest + more) };
      const found = sizesOf(plan, options, F32, 64 * GIB);
      expect(found.plan.smallest, String(more)).toBeLessThanOrEqual(found.budgetBytes);
    }
  });

  it('is the one that was written, if it can be', () => {
    expect(sizes(GIB, { context: 8192 })).toMatchObject({ contextTokens: 8192, kvTokens: 8192 });
    expect(sizes(GIB, { context: 100 })).toMatchObject({ contextTokens: 100, kvTokens: 3072 });
    expect(() => sizes(GIB, { context: 65_536 })).toThrow("more than the model's own context of 40960");
    expect(() => sizes(GIB, { context: 8192, kvTokens: 4096 })).toThrow('more than --kv-tokens 4096');
  });

  it('is no longer than the KV cache that was written', () => {
    expect(sizes(64 * GIB, { kvTokens: 4096 })).toMatchObject({ contextTokens: 4096, kvTokens: 4096 });
    expect(sizes(64 * GIB, { kvTokens: 4096 }, 1024)).toMatchObject({ contextTokens: 1024, kvTokens: 4096 });
  });
});

describe('activations', () => {
  it.each([
    [F32, 'cpu', 'auto', 'f32'],
    [Q4, 'cpu', 'auto', 'int8'],
    [{ experts: { dtype: 'bf16' }, dense: { dtype: 'q8_0' } }, 'cpu', 'auto', 'int8'],
    [Q4, 'cuda', 'auto', 'f32'],
    [Q4, 'cpu', 'f32', 'f32'],
    [F32, 'cpu', 'int8', 'int8'],
  ] as [PackFormats, 'cpu' | 'cuda', SizeOptions['activations'], string][])(
    'of %j on %s with %s are %s',
    (formats, device, activations, expected) => {
      const { plan, asked } = planner();
      const found = sizesOf(plan, { ...OPTIONS, device, activations }, formats, GIB).activations;
      expect(found).toBe(expected);
      expect(new Set(asked.map((limits) => limits.activations))).toEqual(new Set([expected]));
    },
  );
});
