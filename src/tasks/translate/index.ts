/** Translates texts with models whose tokenizer has language codes, such as NLLB. */
import type { Task } from '../task.js';
import { translateAnswer } from './answer.js';
import { translateInputs, translateTexts } from './items.js';
import {
  storedForm,
  storedJob,
  storedResult,
  type TranslateForm,
  type TranslateJob,
  type TranslateResult,
} from './job.js';
import { prepareTranslate, type TranslateBody } from './request.js';
import { TranslateResults } from './results.js';
import { TranslateAnswer, TranslateRequest } from './schema.js';
import { translateTokens } from './tokens.js';

export const translate: Task<TranslateBody, TranslateJob, TranslateResult, TranslateForm> = {
  kind: 'translate',
  route: {
    path: '/v1/translate',
    summary: 'Translates each input; for models whose tokenizer has language codes, such as NLLB',
    answer: 'One entry for each input',
  },
  jobType: 'translation',
  schemas: { request: TranslateRequest, answer: TranslateAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareTranslate,
  form: ({ showTokenIds = false, explain = false }) => ({ tokenIds: showTokenIds, experts: explain }),
  answers: (about) => ({ whole: (result) => translateAnswer(about, result) }),
  tokens: translateTokens,
  engine: {
    runs: 'model',
    texts: translateTexts,
    inputs: translateInputs,
    results: (job, limits) => new TranslateResults(job, limits),
  },
};
