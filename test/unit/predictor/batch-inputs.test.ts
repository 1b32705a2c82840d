import { describe, expect, it } from 'vitest';
import { batchInputs } from '../../../src/predictor/batch-inputs.js';
import type { PromptBatch } from '../../../src/protocol/inference-messages.js';
import { ALONE, SHAPE } from './routing-fixture.js';

/** A batch of inputs. `fed` lists the tokens that each label feeds; an input without `fed` generates. */
function batchOf(...inputs: { prompt: number[]; fed?: number[][] }[]): PromptBatch {
  const requests = inputs.map(({ prompt, fed }, item) => {
    const plan = { inputs: (fed ?? []).map((tokens) => ({ tokens })) } as never;
    const generate = { kind: 'generate' as const, maxTokens: 1, logprobs: null, choices: [null] };
    const work = fed === undefined ? generate : { kind: 'score' as const, plan };
    const tokens = Int32Array.from(prompt);
    return { item, job: item, jobItems: 1, routingK: 0, owner: '', dueMs: 0, work, tokens };
  });
  return { id: 3, routingK: 0, requests };
}

const plain = (list: Int32Array | undefined) => [...(list ?? [])];

describe('the inputs of a hash function for a batch', () => {
  it('holds the prompts and the decoder tokens of labels for an encoder-decoder model', () => {
    const batch = batchOf({ prompt: [1, 2] }, { prompt: [3], fed: [[7], [7, 8]] });
    const [encoder, decoder] = batchInputs(batch, SHAPE);
    expect([plain(encoder!.tokens), plain(encoder!.offsets)]).toEqual([
      [1, 2, 3],
      [0, 2, 3],
    ]);
    expect([plain(decoder!.tokens), plain(decoder!.offsets)]).toEqual([
      [7, 7, 8],
      [0, 1, 3],
    ]);
    expect([plain(decoder!.contextTokens), plain(decoder!.contextOffsets)]).toEqual([
      [3, 3],
      [0, 1, 2],
    ]);
    expect(batchInputs(batchOf({ prompt: [1] }), SHAPE)[1]).toBeNull();
  });

  it('holds the prompts, then the tokens of labels for a model with one stack', () => {
    const batch = batchOf({ prompt: [1, 2], fed: [[7], [8, 9]] }, { prompt: [3] });
    const [input] = batchInputs(batch, ALONE);
    expect([plain(input!.tokens), plain(input!.offsets)]).toEqual([
      [1, 2, 3, 7, 8, 9],
      [0, 2, 3, 4, 6],
    ]);
    expect([plain(input!.contextTokens), plain(input!.contextOffsets)]).toEqual([
      [1, 2, 1, 2],
      [0, 0, 0, 2, 4],
    ]);
  });
});
