/** What the tests of tasks share: a tokenizer, the limits of a model, and the way from a job to its inputs. */
import { readFileSync } from 'node:fs';
import { SidaError } from '../../../src/errors.js';
import type { ModelShape } from '../../../src/native/addon-types.js';
import { type TaskJob, taskOf } from '../../../src/tasks/registry.js';
import type { ModelLimits, PreparedInput } from '../../../src/tasks/shared/prepared-input.js';
import { Tokenizer } from '../../../src/text/tokenizer.js';

/** `path` begins at the repository. */
export function tokenizerOf(path: string, vocabSize: number): Tokenizer {
  const json = readFileSync(new URL(`../../../${path}`, import.meta.url));
  return new Tokenizer(json, { vocabSize, maxInputBytes: 10_000 });
}

export const mini = tokenizerOf('models/switch-mini/tokenizer.json', 8000);

export function limitsOf(shape: ModelShape, more: Partial<ModelLimits> = {}): ModelLimits {
  const limits = {
    ...{ shape, maxBatchTokens: 32, kvPages: 12, kvPageTokens: 16, kvWindows: [], maxInputBytes: 10_000 },
    texts: undefined,
    ...more,
  };
  const cache = limits.kvPages * limits.kvPageTokens;
  return { contextTokens: Math.min(shape.contextTokens ?? cache, cache), ...limits };
}

export function inputsOf(job: TaskJob, limits: ModelLimits, tokenizer = mini): PreparedInput[] {
  const { engine } = taskOf(job);
  if (engine.runs !== 'model') throw new Error('it has no inputs');
  const ids = engine
    .texts(job, limits)
    .map(({ text, special }) =>
      Int32Array.from(special ? tokenizer.encode(text) : tokenizer.encodePlain(text)),
    );
  return engine.inputs(job, limits, ids);
}

export function refusal(run: () => unknown): SidaError {
  try {
    run();
  } catch (error) {
    if (error instanceof SidaError) return error;
  }
  throw new Error('expected a SidaError');
}
