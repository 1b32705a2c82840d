// Beam search in requests of /v1/completions: what is accepted, what is refused, and what becomes of it.
import { describe, expect, it } from 'vitest';
import type { ModelInfo } from '../../../../src/protocol/engine-messages.js';
import { complete } from '../../../../src/tasks/complete/index.js';
import type { CompleteJob } from '../../../../src/tasks/complete/job.js';
import type { CompleteBody } from '../../../../src/tasks/complete/request.js';
import { DECODER_ONLY, SHAPE } from '../../scheduler/scripted-native-engine.js';
import { inputsOf, limitsOf, refusal } from '../task-fixture.js';

const model = (shape = SHAPE) =>
  ({ name: 'tiny', shape, contextTokens: 320, hasTokenizer: false }) as ModelInfo;

function jobOf(more: Partial<CompleteBody>, shape = SHAPE): CompleteJob {
  const request = complete.schemas.request.parse({ prompt: [2, 3], ...more }) as CompleteBody;
  return complete.prepare(request, model(shape), { maxInputBytes: 100, maxBatchTokens: 32 }).job;
}

const workOf = (job: CompleteJob, shape = SHAPE) =>
  inputsOf(job, limitsOf(shape, { kvPages: 20, maxInputBytes: 100 }))[0]!.work;

describe('a request with num_beams', () => {
  it('becomes a search with the defaults of transformers', () => {
    expect(workOf(jobOf({ num_beams: 4 }))).toEqual({
      kind: 'search',
      beams: 4,
      lengthPenalty: 1,
      earlyStopping: false,
      maxTokens: 16,
      best: 1,
    });
  });

  it('passes on its settings, and returns the n best texts', () => {
    const more = {
      num_beams: 5,
      n: 3,
      length_penalty: -0.5,
      early_stopping: 'never',
      max_tokens: 9,
    } as const;
    expect(workOf(jobOf({ ...more, forced_bos_token_id: 7 }))).toEqual({
      kind: 'search',
      beams: 5,
      lengthPenalty: -0.5,
      earlyStopping: 'never',
      maxTokens: 9,
      best: 3,
      forcedFirst: 7,
    });
  });

  it('of 1 is a generation, whose first token may be forced too', () => {
    const work = workOf(
      jobOf({ num_beams: 1, forced_bos_token_id: 7, length_penalty: 1, early_stopping: false }),
    );
    expect(work).toMatchObject({ kind: 'generate', choices: [null], forcedFirst: 7 });
  });

  it('accepts fields beside it that change nothing', () => {
    const neutral = { temperature: 0, top_p: 1, top_k: 0, min_p: 0, stream: false, stop: [], logprobs: null };
    expect(jobOf({ num_beams: 2, ...neutral })).toMatchObject({ search: { beams: 2 } });
  });

  it.each([
    ['temperature', 0.5],
    ['top_p', 0.9],
    ['top_k', 5],
    ['min_p', 0.1],
    ['seed', 3],
    ['stream', true],
    ['logprobs', 0],
  ])('is refused beside %s', (param, value) => {
    expect(refusal(() => jobOf({ num_beams: 3, [param]: value }))).toMatchObject({
      code: 'invalid_request',
      param,
      message: expect.stringContaining('"num_beams" of 3'),
    });
  });

  it('is refused for more texts than beams', () => {
    expect(refusal(() => jobOf({ num_beams: 2, n: 3 }))).toMatchObject({
      code: 'invalid_request',
      param: 'n',
      message: expect.stringMatching(/3 texts.*2 beams/),
    });
  });

  it('is refused by a decoder-only model, on the server and in the engine', () => {
    const expected = { code: 'cannot_run', param: 'num_beams', message: expect.stringContaining('olmoe') };
    expect(refusal(() => jobOf({ num_beams: 2 }, DECODER_ONLY))).toMatchObject(expected);
    expect(refusal(() => workOf(jobOf({ num_beams: 2 }), DECODER_ONLY))).toMatchObject(expected);
    const forced = { code: 'cannot_run', param: 'forced_bos_token_id' };
    expect(refusal(() => jobOf({ forced_bos_token_id: 2 }, DECODER_ONLY))).toMatchObject(forced);
    expect(refusal(() => workOf(jobOf({ forced_bos_token_id: 2 }), DECODER_ONLY))).toMatchObject(forced);
  });

  it('reserves pages for all its beams', () => {
    // A page of the prompt and 2 of each beam.
    expect(refusal(() => workOf(jobOf({ num_beams: 10, max_tokens: 20 })))).toMatchObject({
      details: { needed_pages: 21, kv_pages: 20 },
    });
    expect(workOf(jobOf({ num_beams: 9, max_tokens: 20 }))).toMatchObject({ beams: 9 });
  });

  it('costs the tokens of all its beams', () => {
    const job = jobOf({ num_beams: 4, n: 2, max_tokens: 10 });
    expect(complete.tokens.cost(job)).toEqual({ known: 2 + 4 * 10, estimated: 0 });
    const result = { promptTokens: 2, completionTokens: 12 } as Parameters<typeof complete.tokens.used>[1];
    expect(complete.tokens.used(job, { ...result, beamTokens: 33 })).toBe(35);
  });
});

it.each([
  ['length_penalty', 0.5],
  ['early_stopping', true],
  ['early_stopping', 'never'],
])('%s of %s is refused without beams', (param, value) => {
  for (const beams of [{}, { num_beams: 1 }]) {
    expect(refusal(() => jobOf({ ...beams, [param]: value }))).toMatchObject({
      code: 'invalid_request',
      param,
    });
  }
});

it('a forced token outside the vocabulary is refused', () => {
  const expected = { code: 'invalid_request', message: expect.stringContaining('vocabulary of 16') };
  expect(refusal(() => jobOf({ forced_bos_token_id: 16 }))).toMatchObject(expected);
  expect(refusal(() => workOf({ ...jobOf({}), forcedFirst: 16 }))).toMatchObject(expected);
});
