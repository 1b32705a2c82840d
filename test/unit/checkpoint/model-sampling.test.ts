import { describe, expect, it } from 'vitest';
import { parseModelSampling } from '../../../src/checkpoint/model-sampling.js';

const parse = (config: object) =>
  parseModelSampling(Buffer.from(JSON.stringify(config)), 'generation_config.json');

describe('the sampling that a model advises', () => {
  it('is that of its generation_config.json', () => {
    const qwen = { do_sample: true, temperature: 0.6, top_k: 20, top_p: 0.95, eos_token_id: [1, 2] };
    expect(parse(qwen)).toEqual({ temperature: 0.6, topP: 0.95, topK: 20, minP: 0, repetitionPenalty: 1 });
    expect(parse({ do_sample: true, repetition_penalty: 1.05 })).toMatchObject({
      temperature: 1,
      repetitionPenalty: 1.05,
    });
  });

  it('is that of a GGUF file, which has no do_sample', () => {
    expect(parse({ temperature: 0.7, min_p: 0.05 })).toMatchObject({ temperature: 0.7, minP: 0.05 });
  });

  it.each([[{}], [{ eos_token_id: 2 }], [{ do_sample: false, temperature: 0.6 }], [{ temperature: 0 }]])(
    'is greedy for %j',
    (config) => expect(parse(config)).toBeUndefined(),
  );

  it('is greedy without a file', () => expect(parseModelSampling(undefined, 'x')).toBeUndefined());

  it('is refused with its place where it cannot be', () => {
    expect(() => parse({ temperature: 'hot' })).toThrow(/^generation_config.json: temperature: /);
    expect(() => parse({ top_p: 0 })).toThrow(/top_p/);
  });
});
