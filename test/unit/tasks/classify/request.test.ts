import { describe, expect, it } from 'vitest';
import type { ModelInfo } from '../../../../src/protocol/engine-messages.js';
import { type ClassifyBody, prepareClassify } from '../../../../src/tasks/classify/request.js';
import { DECODER_ONLY } from '../../scheduler/scripted-native-engine.js';

const model = { name: 'm', hasTokenizer: true, tasks: {}, shape: DECODER_ONLY } as unknown as ModelInfo;
const limits = { maxInputBytes: 65_536, maxBatchTokens: 2048 };
const prepare = (body: Partial<ClassifyBody>) =>
  prepareClassify({ labels: ['yes', 'no'], ...body } as ClassifyBody, model, limits);

it('counts labels and the template of each input among the texts of a request', () => {
  const labels = ['x'.repeat(1000), 'y'.repeat(576)];
  const input = Array(32).fill('z');
  const template = (bytes: number) => `${'a'.repeat(bytes)}{text}`;
  const fits = (1024 ** 2 - 1600) / 32;
  expect(prepare({ template: template(fits - 1), labels, input }).job.inputs).toHaveLength(32);
  expect(() => prepare({ template: template(fits), labels, input })).toThrow(
    expect.objectContaining({
      code: 'request_too_large',
      message: expect.stringMatching(/1048584 bytes together, with the template once for each input/),
    }),
  );
});

describe('the fields that a request has filled', () => {
  it('are counted for each input, empty texts too', () => {
    const many = (uses: number, inputs: number) =>
      prepare({ template: '{a}'.repeat(uses), input: Array(inputs).fill({ a: '' }) });
    expect(many(128, 32).job.inputs).toHaveLength(32);
    expect(() => many(129, 32)).toThrow(
      expect.objectContaining({
        code: 'request_too_large',
        param: 'template',
        details: { uses: 129, inputs: 32, filled: 4128, limit: 4096 },
      }),
    );
    expect(() => many(21_845, 1)).toThrow(expect.objectContaining({ code: 'request_too_large' }));
  });
});
