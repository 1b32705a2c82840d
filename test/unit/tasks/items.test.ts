import { describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../src/protocol/item-work.js';
import type { TaskJob } from '../../../src/tasks/registry.js';
import { DECODER_ONLY, ENCODER_ONLY, SHAPE } from '../scheduler/scripted-native-engine.js';
import { inputsOf, limitsOf, refusal as refused, mini as tokenizer } from './task-fixture.js';

const limits = (shape = DECODER_ONLY) => limitsOf({ ...shape, vocabSize: 8000 }, { texts: tokenizer });
const refusal = (job: TaskJob, of = limits()) => refused(() => inputsOf(job, of));

type Complete = Extract<TaskJob, { kind: 'complete' }>;
const complete = (tokens: number, more: Partial<Complete> = {}): TaskJob => {
  const prompts = [Array(tokens).fill(5)];
  return { kind: 'complete', prompts, maxTokens: 3, stop: [], logprobs: null, stream: false, ...more };
};

describe('choices of a prompt', () => {
  const sampling = { temperature: 0.5, topP: 0.9, topK: 40, minP: 0, seed: 7 };

  it('each have their own seed, and the first has that of the request', () => {
    const [input] = inputsOf(complete(4, { choices: 3, sampling }), limits());
    const { temperature, topP, topK, minP } = sampling;
    const rest = { temperature, topP, topK, minP };
    expect(input!.work).toMatchObject({
      choices: [
        { ...rest, seed: 7n },
        { ...rest, seed: 7n + 0x9e3779b97f4a7c15n },
        { ...rest, seed: BigInt.asUintN(64, 7n + 2n * 0x9e3779b97f4a7c15n) },
      ],
    });
  });

  it('convert a negative seed to 64 bits', () => {
    const [input] = inputsOf(complete(4, { sampling: { ...sampling, seed: -1 } }), limits());
    expect(input!.work).toMatchObject({ choices: [{ seed: 2n ** 64n - 1n }] });
  });

  it('are greedy without sampling', () => {
    expect(inputsOf(complete(4, { choices: 2 }), limits())[0]!.work).toMatchObject({
      choices: [null, null],
    });
  });
});

describe('an encoder alone', () => {
  it('takes inputs to embed, each in one pass, and no others, wherever they come from', () => {
    const embed = (tokens: number): TaskJob => {
      return { kind: 'embed', inputs: [Array(tokens).fill(5)], base64: false };
    };
    expect(inputsOf(embed(32), limits(ENCODER_ONLY))[0]!.work).toEqual({ kind: 'embed' });
    expect(refusal(embed(33), limits(ENCODER_ONLY)).toBody()).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringMatching(/33 tokens.*one pass takes/),
    });
    expect(refusal(embed(33), limits({ ...ENCODER_ONLY, contextTokens: 20 })).toBody()).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringMatching(/33 tokens.*20 tokens, that of the model/),
    });
    expect(refusal(complete(4), limits(ENCODER_ONLY)).toBody()).toMatchObject({
      code: 'cannot_run',
      message: expect.stringMatching(/nomic_bert.*embeds only.*\/v1\/embeddings/),
    });
  });
});

describe('a decoder-only model', () => {
  it('accepts prompts longer than a pass, up to its context', () => {
    expect(inputsOf(complete(126), limits())[0]!.tokens).toHaveLength(126);
    expect(refusal(complete(127)).toBody()).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringMatching(
        /127 tokens.*"max_tokens" of 3.*129; the model's maximum context length is 128 tokens/,
      ),
      details: { tokens: 127, needed: 129, limit: 128 },
    });
  });

  it('has no longer context than the server gives it', () => {
    const small = { ...limits(), contextTokens: 64, kvPages: 4 };
    expect(inputsOf(complete(62), small)).toHaveLength(1);
    expect(refusal(complete(63), small).toBody()).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringMatching(
        /63 tokens.*65; with --context of this server, the maximum context length is 64 tokens/,
      ),
      details: { tokens: 63, needed: 65, limit: 64 },
    });
  });

  it('accepts inputs whose windows fit, and refuses the others with the pages of the window', () => {
    // 32 tokens of a window of 33 and 32 of a pass touch 5 pages together.
    const windowed = (pages: number) => ({ ...limits(), kvWindows: [{ window: 33, pages }] });
    expect(inputsOf(complete(100), windowed(5))).toHaveLength(1);
    expect(refusal(complete(100), windowed(4)).toBody()).toMatchObject({
      code: 'cannot_run',
      message: expect.stringMatching(/needs 5 KV pages of 16 tokens in layers with a window of 33.*has 4$/),
      details: { needed_pages: 5, kv_pages: 4 },
    });
    // Pages of short inputs never pass out of the window.
    expect(inputsOf(complete(20), windowed(2))).toHaveLength(1);
  });

  it('refuses more sequences than there are recurrent states', () => {
    const recurrent = { ...limits(), kvWindows: [{ window: 0, pages: 3 }] };
    expect(inputsOf(complete(100, { maxTokens: 8, choices: 2 }), recurrent)).toHaveLength(1);
    expect(refusal(complete(100, { maxTokens: 8, choices: 3 }), recurrent).toBody()).toMatchObject({
      code: 'cannot_run',
      message:
        'Prompt 0 with its output in 3 choices needs 4 recurrent states (--kv-states), the cache has 3',
      param: 'n',
    });
    const labels = ['a violin', 'a cello', 'a viola', 'a harp'];
    expect(
      refusal({ kind: 'classify', inputs: ['an instrument'], labels }, recurrent).toBody(),
    ).toMatchObject({
      code: 'cannot_run',
      message: expect.stringMatching(
        /in 4 labels needs \d recurrent states \(--kv-states\), the cache has 3/,
      ),
      param: 'labels',
    });
  });

  it('accepts inputs that fit into its KV pages, with shared pages counted once', () => {
    // 12 pages: 6 are shared, and each of three choices has 2 more. A fourth choice would need 14 pages.
    const long = { maxTokens: 28, choices: 3 };
    expect(inputsOf(complete(96, long), limits())).toHaveLength(1);
    expect(refusal(complete(96, { ...long, choices: 4 })).toBody()).toMatchObject({
      code: 'cannot_run',
      message: 'Prompt 0 with its output in 4 choices needs 14 KV pages of 16 tokens, the cache has 12',
      param: 'n',
      details: { needed_pages: 14, kv_pages: 12 },
    });
  });

  it('has labels that continue the prompt, within its context', () => {
    const classify = (text: string): TaskJob => ({
      kind: 'classify',
      inputs: [text],
      labels: ['no', 'not at all'],
    });
    const [input] = inputsOf(classify('the film'), limits());
    const { plan } = input!.work as Extract<ItemWork, { kind: 'score' }>;
    const no = tokenizer.encodePlain('no');
    const not = tokenizer.encodePlain('not at all');
    expect(plan.first.map(({ token }) => token)).toEqual([no[0], not[0]]);
    expect(plan.inputs.map(({ tokens }) => tokens)).toEqual(
      [no, not].map((ids) => ids.slice(0, -1)).filter((ids) => ids.length > 0),
    );
    expect(refusal(classify('a '.repeat(126))).toBody()).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringContaining('its longest label'),
    });
  });
});

it('an encoder accepts no input longer than a pass', () => {
  expect(refusal(complete(33), limits(SHAPE)).toBody()).toMatchObject({
    code: 'context_length_exceeded',
    details: { tokens: 33, limit: 32 },
  });
});

describe('the tokens of labels', () => {
  it('are counted for every input before they are planned', () => {
    const labels = ['fine', 'dull'];
    const each = labels.flatMap((label) => tokenizer.encodePlain(label)).length;
    const inputs = Array(Math.floor(65_536 / each) + 1).fill('x');
    expect(refusal({ kind: 'classify', inputs, labels })).toMatchObject({
      code: 'cannot_run',
      param: 'labels',
      details: { inputs: inputs.length, label_tokens: each, tokens: inputs.length * each, limit: 65_536 },
    });
    expect(inputsOf({ kind: 'classify', inputs: inputs.slice(1), labels }, limits())).toHaveLength(
      inputs.length - 1,
    );
  });
});
