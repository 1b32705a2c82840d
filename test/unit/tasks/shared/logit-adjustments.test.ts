import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  ADJUSTMENT_FIELDS,
  adjustmentsOf,
  checkBiases,
  storedAdjustments,
} from '../../../../src/tasks/shared/logit-adjustments.js';

const Fields = z.strictObject(ADJUSTMENT_FIELDS);
const model = { shape: { vocabSize: 2000 } } as Parameters<typeof adjustmentsOf>[1];
const biases = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, id) => [id, 1]));

describe('the penalties of a request', () => {
  it.each([
    {},
    { presence_penalty: 0, frequency_penalty: null, repetition_penalty: 1, logit_bias: {} },
    { logit_bias: null },
  ])('change nothing: %j', (request) => {
    expect(adjustmentsOf(Fields.parse(request), model)).toBeUndefined();
  });

  it('become those of its job', () => {
    const request = { presence_penalty: -2, repetition_penalty: 1.25, logit_bias: { 0: -100, 1999: 0.5 } };
    const adjustments = adjustmentsOf(Fields.parse(request), model);
    expect(adjustments).toEqual({
      presence: -2,
      frequency: 0,
      repetition: 1.25,
      biases: [
        [0, -100],
        [1999, 0.5],
      ],
    });
    expect(storedAdjustments.parse(adjustments)).toEqual(adjustments);
  });

  it('take 1,024 biases', () => {
    expect(Fields.safeParse({ logit_bias: biases(1024) }).success).toBe(true);
  });

  it.each<[string, object, (string | number)[], string]>([
    ['a presence above 2', { presence_penalty: 2.1 }, ['presence_penalty'], '<=2'],
    ['a frequency below -2', { frequency_penalty: -2.1 }, ['frequency_penalty'], '>=-2'],
    ['a repetition of 0', { repetition_penalty: 0 }, ['repetition_penalty'], '>0'],
    ['a text', { presence_penalty: '1' }, ['presence_penalty'], 'expected number'],
    ['a bias above 100', { logit_bias: { 5: 100.5 } }, ['logit_bias', '5'], '<=100'],
    ['a name that is no token id', { logit_bias: { hello: 1 } }, ['logit_bias', 'hello'], ''],
    ['an id with a sign', { logit_bias: { '-1': 1 } }, ['logit_bias', '-1'], ''],
    ['the same id in two forms', { logit_bias: { '01': 1 } }, ['logit_bias', '01'], ''],
    ['1,025 biases', { logit_bias: biases(1025) }, ['logit_bias'], 'at most 1024 token ids, found 1025'],
  ])('refuse %s', (_, request, path, says) => {
    const { error } = Fields.safeParse(request);
    expect(error?.issues[0]?.path).toEqual(path);
    expect(error?.issues[0]?.message).toContain(says);
  });

  it('refuse tokens outside the vocabulary, in jobs too', () => {
    const message = 'The token id 2000 is outside the vocabulary of 2000';
    const refused = { code: 'invalid_request', param: 'logit_bias', message };
    expect(() => adjustmentsOf({ logit_bias: { 2000: 1 } }, model)).toThrow(expect.objectContaining(refused));
    expect(() => checkBiases({ biases: [[2000, 1]] }, model.shape)).toThrow(expect.objectContaining(refused));
  });
});
