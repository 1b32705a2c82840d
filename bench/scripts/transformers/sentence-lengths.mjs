// Real sentences of given lengths, as token ids: what both sides of a comparison are fed.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '../../../dist/text/tokenizer.js';

/** Tokens, both ends included. */
const LENGTH_CLASSES = {
  sst2: [
    [8, 16],
    [17, 32],
    [33, 64],
  ],
  multirc: [
    [200, 299],
    [300, 399],
    [400, 500],
  ],
};
/** Inputs of a class that are looked at for each that is taken. */
const CANDIDATES = 16;

const rows = (file) => readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line

/** `data` holds multirc/validation.jsonl and multirc/validation.passages.jsonl; SST-2 comes with the repository. */
function textsOf(kind, data) {
  if (kind === 'sst2')
    return rows('test/data/sst2-validation.jsonl').map(({ text }) => `sst2 sentence: ${text}`);
  const passages = new Map(
    rows(join(data, 'multirc/validation.passages.jsonl')).map(({ passage, text }) => [passage, text]),
  );
  return rows(join(data, 'multirc/validation.jsonl')).map(
    ({ question, answer, passage }) =>
      `multirc question: ${question} answer: ${answer} paragraph: ${passages.get(passage)}`,
  );
}

/**
 * `perClass` inputs of each length class, at even steps of length among the first that fit. The ids are those of the
 * bundled model's tokenizer, of 8000 words.
 */
export function inputsByLength(kind, data, perClass) {
  const tokenizer = new Tokenizer(readFileSync('models/switch-mini/tokenizer.json'), {
    vocabSize: 8000,
    maxInputBytes: 1 << 20,
  });
  const found = LENGTH_CLASSES[kind].map(([least, most]) => ({ kind, least, most, inputs: [] }));
  const wanted = CANDIDATES * perClass;
  for (const text of textsOf(kind, data)) {
    if (found.every(({ inputs }) => inputs.length === wanted)) break;
    const tokens = Array.from(tokenizer.encode(text));
    const fits = found.find(({ least, most }) => tokens.length >= least && tokens.length <= most);
    if (fits !== undefined && fits.inputs.length < wanted) fits.inputs.push(tokens);
  }
  return found.map(({ inputs, ...about }) => {
    if (inputs.length < perClass) {
      throw new Error(
        `${kind} has ${inputs.length} inputs of ${about.least} to ${about.most} tokens, ${perClass} are wanted`,
      );
    }
    inputs.sort((a, b) => a.length - b.length);
    const step = inputs.length / perClass;
    return {
      ...about,
      inputs: Array.from({ length: perClass }, (_, i) => inputs[Math.floor((i + 0.5) * step)]),
    };
  });
}
