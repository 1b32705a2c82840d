/** Scores labels as continuations of texts. */
import type { Task } from '../task.js';
import { classifyAnswer } from './answer.js';
import { classifyInputs, classifyTexts } from './items.js';
import {
  type ClassifyForm,
  type ClassifyJob,
  type ClassifyResult,
  storedForm,
  storedJob,
  storedResult,
} from './job.js';
import { type ClassifyBody, prepareClassify } from './request.js';
import { ClassifyResults } from './results.js';
import { ClassifyAnswer, ClassifyRequest } from './schema.js';
import { classifyTokens } from './tokens.js';

export const classify: Task<ClassifyBody, ClassifyJob, ClassifyResult, ClassifyForm> = {
  kind: 'classify',
  route: {
    path: '/v1/classify',
    summary: 'Scores labels as continuations of each input',
    answer: 'One entry for each input',
  },
  jobType: 'classify',
  schemas: { request: ClassifyRequest, answer: ClassifyAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareClassify,
  form: ({ explain = false }) => ({ experts: explain }),
  answers: (about) => ({ whole: (result) => classifyAnswer(about, result) }),
  tokens: classifyTokens,
  engine: {
    runs: 'model',
    texts: classifyTexts,
    inputs: classifyInputs,
    results: (job) => new ClassifyResults(job),
  },
};
