import { describe, expect, it } from 'vitest';
import { startFields, startLine } from '../../../src/cli/start-line.js';
import type { ModelInfo } from '../../../src/protocol/engine-messages.js';
import { MODEL } from '../queue/scripted-engine.js';

const GIB = 1024 ** 3;
const model: ModelInfo = {
  ...MODEL,
  name: 'qwen3-30b-a3b',
  plan: { ...MODEL.plan, experts: 6144 },
  usage: { ...MODEL.usage, budgetBytes: 19 * GIB, slots: 6144 },
  freeBytes: 20.5 * GIB,
  contextTokens: 16_384,
  activations: 'int8',
  kv: 'bf16',
  sampling: { temperature: 0.6, topP: 0.95, topK: 20, minP: 0, repetitionPenalty: 1 },
  predictor: { name: 'lstm', fingerprint: null, warnings: [] },
};

describe('the line at the start', () => {
  it('says what the server runs with', () => {
    expect(startLine(model)).toBe(
      'qwen3-30b-a3b · 19.0 of 20.5 GiB free · all 6,144 experts fit · context 16,384 · int8 activations · ' +
        'bf16 KV cache · sampling of the model · predictor lstm',
    );
  });

  it("says what of the budget a GPU's driver takes", () => {
    const plan = { ...model.plan, driver: 0.5 * GIB };
    expect(startLine({ ...model, plan })).toContain(
      "19.0 of 20.5 GiB free · 512 MiB of it for the GPU's driver · all 6,144 experts fit",
    );
    expect(startFields({ ...model, plan })).toMatchObject({ driverBytes: 0.5 * GIB });
  });

  it('says what does not fit, and what is off', () => {
    const usage = { ...model.usage, budgetBytes: GIB / 2, slots: 96 };
    const predictor = { ...model.predictor, name: null };
    expect(startLine({ ...model, usage, sampling: null, predictor })).toBe(
      'qwen3-30b-a3b · 512 MiB of 20.5 GiB free · 96 of 6,144 experts fit · context 16,384 · int8 activations · ' +
        'bf16 KV cache · greedy · no predictor',
    );
  });

  it('has its numbers in a line of the log', () => {
    expect(startFields(model)).toMatchObject({
      budgetBytes: 19 * GIB,
      freeBytes: 20.5 * GIB,
      slots: 6144,
      experts: 6144,
      contextTokens: 16_384,
      activations: 'int8',
      kv: 'bf16',
      sampling: { temperature: 0.6 },
      predictor: 'lstm',
    });
  });
});
