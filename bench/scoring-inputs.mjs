// Sentences to be scored, as the engine gets them.
import { readFileSync } from 'node:fs';
import { planScoring } from '../dist/batching/scoring-plan.js';
import { Tokenizer } from '../dist/text/tokenizer.js';

/** The scoring work of every sentence, and their token ids. */
export function scoringInputs({ pack, shape, texts, labels }) {
  const { vocabSize, decoderStartTokenId, eosTokenId } = shape;
  const tokenizer = new Tokenizer(readFileSync(`${pack}/tokenizer.json`), {
    vocabSize,
    maxInputBytes: 1 << 20,
  });
  const labelIds = labels.map((label) => tokenizer.encodePlain(label));
  const work = { kind: 'score', plan: planScoring(labelIds, decoderStartTokenId, eosTokenId) };
  return { work, inputs: texts.map((text) => tokenizer.encode(text)) };
}

export function inBatches(inputs, size) {
  const batches = [];
  for (let at = 0; at < inputs.length; at += size) batches.push(inputs.slice(at, at + size));
  return batches;
}
