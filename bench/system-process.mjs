// What the processes of predictor-systems.mjs share: the work they are given and the shape of their answer.
import { readFileSync } from 'node:fs';
import { planScoring } from '../dist/inference/scoring.js';
import { Tokenizer } from '../dist/tokenizer/tokenizer.js';

/** The scoring work of every sentence, and their token ids. */
export function scoringInputs({ pack, shape, texts, labels }) {
  const { vocabSize, decoderStartTokenId, eosTokenId } = shape;
  const tokenizer = new Tokenizer(readFileSync(`${pack}/tokenizer.json`, 'utf8'), {
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

/** Prints what a run gave and ends the process. `milliseconds`: of each batch. */
export function report({
  hashFunction,
  warnings,
  plan,
  usage,
  sentences,
  scores,
  milliseconds,
  wallMs,
  counters,
}) {
  const serviceMs = milliseconds.reduce((sum, ms) => sum + ms, 0);
  const sorted = milliseconds.toSorted((a, b) => a - b);
  const quantile = (q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
  const result = {
    hashFunction,
    warnings,
    slots: usage.slots,
    experts: plan.experts,
    slotBytes: plan.slot,
    budgetBytes: usage.budgetBytes,
    peakBytes: usage.peakBytes,
    sentences,
    wallMs,
    betweenPassesMs: wallMs - serviceMs,
    passP50Ms: quantile(0.5),
    passP95Ms: quantile(0.95),
    ...counters,
    scores: Buffer.from(Float64Array.from(scores).buffer).toString('base64'),
  };
  process.stdout.write(JSON.stringify(result), () => process.exit(0));
}
