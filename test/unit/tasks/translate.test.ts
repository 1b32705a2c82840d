// /v1/translate, from the request to the model's inputs and from its tokens to the answer.
import { describe, expect, it } from 'vitest';
import type { ModelInfo } from '../../../src/protocol/engine-messages.js';
import { translate } from '../../../src/tasks/translate/index.js';
import type { TranslateJob } from '../../../src/tasks/translate/job.js';
import type { TranslateBody } from '../../../src/tasks/translate/request.js';
import { DECODER_ONLY, SHAPE } from '../scheduler/scripted-native-engine.js';
import { limitsOf, mini, refusal, inputsOf as taskInputs, tokenizerOf } from './task-fixture.js';

const languages = tokenizerOf('test/fixtures/tokenizers/languages/tokenizer.json', 512);
const [EOS, ENGLISH, GERMAN] = [2, 300, 301];

const shape = { ...SHAPE, vocabSize: 512, tokens: { start: 2, end: [EOS], pad: 1 } };
const limits = (texts = languages) =>
  limitsOf(shape, { maxBatchTokens: 64, kvPages: 200, maxInputBytes: 1000, texts });
const body: TranslateBody = { input: 'the film', source: 'eng_Latn', target: 'deu_Latn' };

function jobOf(more: Partial<TranslateBody> = {}, model: Partial<ModelInfo> = {}): TranslateJob {
  const info = { name: 'nllb', shape, contextTokens: 3072, hasTokenizer: true, ...model } as ModelInfo;
  const request = translate.schemas.request.parse({ ...body, ...more }) as TranslateBody;
  return translate.prepare(request, info, { maxInputBytes: 1000, maxBatchTokens: 64 }).job;
}

const inputsOf = (job: TranslateJob, of = limits()) => taskInputs(job, of, languages);

describe('an input', () => {
  it("is the source's code, the text and the end token, and the target's code is forced to be first", () => {
    const [first, second] = inputsOf(jobOf({ input: ['the film', ''] }));
    expect([...first!.tokens]).toEqual([ENGLISH, ...languages.encodePlain('the film'), EOS]);
    expect([...second!.tokens]).toEqual([ENGLISH, ...languages.encodePlain(''), EOS]);
    expect(first!.work).toEqual({
      kind: 'generate',
      maxTokens: 200,
      logprobs: null,
      choices: [null],
      forcedFirst: GERMAN,
    });
  });

  it('is searched with beams on request', () => {
    const job = jobOf({ num_beams: 4, length_penalty: 0.5, early_stopping: true, max_tokens: 40 });
    expect(inputsOf(job)[0]!.work).toEqual({
      kind: 'search',
      beams: 4,
      lengthPenalty: 0.5,
      earlyStopping: true,
      maxTokens: 40,
      best: 1,
      forcedFirst: GERMAN,
    });
  });

  it('needs pages for every beam', () => {
    const job = jobOf({ num_beams: 16, max_tokens: 200 });
    expect(refusal(() => inputsOf(job))).toMatchObject({
      code: 'cannot_run',
      details: { needed_pages: 1 + 16 * 13, kv_pages: 200 },
    });
  });
});

describe('is refused', () => {
  it('for a language that the tokenizer does not have, with the nearest one', () => {
    expect(refusal(() => inputsOf(jobOf({ target: 'deu_latn' })))).toMatchObject({
      code: 'invalid_request',
      param: 'target',
      message: expect.stringMatching(/"deu_latn".*5 language codes.*did you mean deu_Latn/),
    });
    expect(refusal(() => inputsOf(jobOf({ source: '</s>' })))).toMatchObject({ param: 'source' });
  });

  it('by a model whose tokenizer has no language codes', () => {
    expect(refusal(() => inputsOf(jobOf(), limits(mini)))).toMatchObject({
      code: 'invalid_request',
      param: 'model',
      message: expect.stringContaining('no language codes'),
    });
  });

  it('by a model without a tokenizer, and by one without an encoder', () => {
    expect(refusal(() => jobOf({}, { hasTokenizer: false }))).toMatchObject({ code: 'invalid_request' });
    expect(refusal(() => jobOf({}, { shape: DECODER_ONLY }))).toMatchObject({
      code: 'cannot_run',
      message: expect.stringMatching(/encoder-decoder models only.*olmoe/),
    });
  });

  it('with fields that need beams', () => {
    expect(refusal(() => jobOf({ length_penalty: 2 }))).toMatchObject({ param: 'length_penalty' });
    expect(refusal(() => jobOf({ early_stopping: 'never' }))).toMatchObject({ param: 'early_stopping' });
  });
});

it('the answer has the text without special tokens, and counts the tokens that are shown', () => {
  const { engine } = translate;
  if (engine.runs !== 'model') throw new Error('it has no results');
  const results = engine.results(jobOf({ input: ['a', 'b'], num_beams: 2 }), limits(), []);
  const film = languages.encodePlain('the film was');
  for (const id of [GERMAN, ...film, EOS]) results.token!(0, { item: 0, choice: 0, id });
  results.token!(1, { item: 1, choice: 0, id: GERMAN });
  results.beamTokens!(9);
  results.beamTokens!(4);
  const own = results.finish();
  expect(own).toMatchObject({
    data: [
      { text: 'the film was', finishReason: 'stop' },
      { text: '', finishReason: 'length', tokenIds: [GERMAN] },
    ],
    completionTokens: film.length + 3,
    beamTokens: 13,
  });
});

it('costs the tokens of all beams', () => {
  const job = jobOf({ input: ['abcd', 'ab'], num_beams: 3, max_tokens: 10 });
  expect(translate.tokens.cost(job)).toEqual({ known: 2 * (2 + 3 * 10), estimated: 3 });
  const result = { promptTokens: 9, completionTokens: 5 } as Parameters<typeof translate.tokens.used>[1];
  expect(translate.tokens.used(job, result)).toBe(14);
  expect(translate.tokens.used(job, { ...result, beamTokens: 21 })).toBe(30);
});
