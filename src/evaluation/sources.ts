/** Turns files into the inputs of an evaluation. */

import { SidaError } from '../errors.js';
import { readTextFile } from '../files/text-file.js';
import type { ModelShape } from '../native/addon-types.js';
import { embedsOnly } from '../native/model-shape.js';
import { randomOf } from '../predictor/random.js';
import { planTokens } from '../protocol/item-work.js';
import { planScoring } from '../scheduler/scoring.js';
import type { Tokenizer } from '../text/tokenizer.js';
import type { EvaluationSource } from './evaluate.js';
import type { DataLine } from './labelled-data.js';
import { corrupt, sentinelsOf, WINDOW, windowsOf } from './span-corruption.js';

export interface SourceLimits {
  shape: ModelShape;
  tokenizer: Tokenizer;
  maxBatchTokens: number;
}

/** Tokens per window of a text that is scored as it is. */
const TEXT_WINDOW = 256;
/** A fixed seed makes the corruption of a text the same in every evaluation. */
const SEED = 1;

function cannotRun(message: string): SidaError {
  return new SidaError({ code: 'cannot_run', message });
}

function requireLogits(shape: ModelShape, flag: string): void {
  if (embedsOnly(shape)) throw cannotRun(`${flag} needs a model with a decoder; this one embeds only`);
}

/** Inputs of the lines' tokens, with labels to score or a number of tokens to generate. Throws cannot_run. */
export function dataSource(
  file: string,
  lines: readonly DataLine[],
  work: { labels: readonly string[] } | { maxNewTokens: number },
  { shape, tokenizer, maxBatchTokens }: SourceLimits,
): EvaluationSource {
  const inputs = lines.map(({ line, text, label }) => {
    const tokens = Int32Array.from(tokenizer.encode(text));
    if (tokens.length > maxBatchTokens) {
      throw cannotRun(
        `${file}, line ${line} has ${tokens.length} tokens, the limit is ${maxBatchTokens}; raise --max-batch-tokens`,
      );
    }
    return { line, tokens, ...(label !== undefined && { label }) };
  });
  if ('maxNewTokens' in work) {
    const { maxNewTokens } = work;
    return { inputs: inputs.map((input) => ({ ...input, work: { kind: 'continue', maxNewTokens } })) };
  }
  requireLogits(shape, '--labels');
  const { labels } = work;
  const ids = labels.map((label) => tokenizer.encodePlain(label));
  const plan = planScoring(ids, shape.tokens.start, shape.tokens.end[0]);
  if (planTokens(plan) > maxBatchTokens) {
    throw cannotRun(
      `The labels have ${planTokens(plan)} tokens, the limit is ${maxBatchTokens}; raise --max-batch-tokens`,
    );
  }
  return {
    inputs: inputs.map((input) => ({ ...input, work: { kind: 'score', plan } })),
    scored: { kind: 'labels', labels },
  };
}

/** Texts to measure perplexity on. A decoder-only model scores them as they are, others with hidden spans. */
export function textSource(
  file: string,
  texts: readonly string[],
  limits: SourceLimits,
): { kind: 'text' | 'corrupted'; source: EvaluationSource } {
  requireLogits(limits.shape, '--text');
  return limits.shape.stacks.length === 1
    ? { kind: 'text', source: plainSource(file, texts, limits) }
    : { kind: 'corrupted', source: corruptedSource(file, texts, limits) };
}

/**
 * Cuts the texts, one per line, into windows. Every token of a window but the first is scored. Throws cannot_run when
 * there is too little text.
 */
function plainSource(
  file: string,
  texts: readonly string[],
  { shape, tokenizer, maxBatchTokens }: SourceLimits,
): EvaluationSource {
  const length = Math.min(TEXT_WINDOW, maxBatchTokens, shape.contextTokens ?? TEXT_WINDOW);
  const windows = windowsOf(
    texts.flatMap((text) => tokenizer.encodePlain(`${text}\n`)),
    length,
  );
  if (windows.length === 0) throw cannotRun(`${file} holds too little text to score any of it`);
  const inputs = windows.map((ids, i) => {
    return { line: i + 1, tokens: Int32Array.from(ids), work: { kind: 'text' } as const };
  });
  return { inputs, scored: { kind: 'targets' } };
}

/** Hides spans of the texts and scores them in the decoder. Throws cannot_run when there is too little text. */
export function corruptedSource(
  file: string,
  texts: readonly string[],
  { shape, tokenizer }: SourceLimits,
): EvaluationSource {
  const { vocabSize, tokens } = shape;
  const end = tokens.end[0]!;
  const sentinels = sentinelsOf(vocabSize, (id) => tokenizer.idToToken(id));
  const windows = windowsOf(
    texts.flatMap((text) => [...tokenizer.encodePlain(text), end]),
    WINDOW,
  );
  if (windows.length === 0) throw cannotRun(`${file} holds too little text to hide any of it`);
  const random = randomOf(SEED);
  const inputs = windows.map((ids, i) => {
    const { input, target } = corrupt(ids, random, sentinels, end);
    const plan = planScoring([target], tokens.start, end);
    return { line: i + 1, tokens: Int32Array.from(input), work: { kind: 'score', plan } as const };
  });
  return { inputs, scored: { kind: 'targets' } };
}

/** The lines of a plain text that are not blank. Throws invalid_request when the file cannot be read. */
export async function readTextLines(file: string, limit?: number): Promise<string[]> {
  return readTextFile(file, 'invalid_request')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .slice(0, limit);
}
