// The native engine called directly, with no threads, queues or processes around it: batches of sentences are encoded
// and their labels scored, as the inference thread does it.

import { scoreLabels } from '../dist/batching/label-scoring.js';
import { budgetBytes, hostBudgetBytes } from '../dist/config/budget.js';
import { loadAddon } from '../dist/native/addon.js';

function offsetsOf(lists) {
  const offsets = new Int32Array(lists.length + 1);
  lists.forEach(({ length }, i) => {
    offsets[i + 1] = offsets[i] + length;
  });
  return offsets;
}

const flat = (lists) => Int32Array.from(lists.flatMap((list) => Array.from(list)));

export class DirectEngine {
  #nextId = 0;
  #steps = {
    newId: () => ++this.#nextId,
    decode: (sequences, _known, take) => this.#decode(sequences, take),
  };

  /** `config`: the options of the engine process. */
  constructor(config, pack) {
    const addon = loadAddon();
    const { maxBatchTokens, kvTokens, threads } = config;
    const limits = { maxBatchTokens, kvTokens, threads };
    const planned = addon.planMemory({ pack }, limits);
    this.engine = new addon.Engine({
      pack,
      budgetBytes: budgetBytes(config.memoryBudget, planned),
      hostBudgetBytes: hostBudgetBytes(config.hostBudget, planned),
      linkBandwidth: config.linkBandwidth,
      linkLatency: config.linkLatencyMs / 1000,
      ...limits,
    });
    this.reset();
  }

  /** Begins the counts anew. */
  reset() {
    const zero = { needed: 0, resident: 0, prefetched: 0, late: 0, onDemand: 0, bytesMoved: 0, stallNs: 0 };
    this.totals = { ...zero, passNs: 0 };
  }

  /** Scores of each sentence's labels, all sentences in one batch. */
  classify(sentences, plan) {
    const contexts = sentences.map(() => this.#steps.newId());
    const batch = {
      phase: 'encode',
      sequences: Int32Array.from(contexts),
      offsets: offsetsOf(sentences),
      tokens: flat(sentences),
    };
    this.#pass(batch);
    const items = contexts.map((context, i) => ({ item: i, job: 0, context, plan }));
    const { scored, failed, sequences } = scoreLabels(items, this.#steps, null);
    if (failed.length > 0) throw failed[0].error;
    this.engine.releaseSequences(Int32Array.from(sequences));
    this.engine.releaseContexts(Int32Array.from(contexts));
    return scored.map(({ scores }) => scores);
  }

  #pass(batch) {
    const result = this.engine.runBatch(batch, null);
    for (const key of Object.keys(this.totals)) this.totals[key] += result.stats[key];
    return result;
  }

  #decode(sequences, take) {
    const offsets = offsetsOf(sequences.map(({ tokens }) => tokens));
    const { logits } = this.#pass({
      phase: 'decode',
      sequences: Int32Array.from(sequences, ({ sequence }) => sequence),
      contexts: Int32Array.from(sequences, ({ context }) => context),
      offsets,
      tokens: flat(sequences.map(({ tokens }) => tokens)),
      logitRows: Int32Array.from(sequences.flatMap(({ rows }, i) => rows.map((row) => offsets[i] + row))),
    });
    const { vocabSize } = this.engine.shape;
    let row = 0;
    sequences.forEach(({ rows }, i) => {
      const views = rows.map((_, j) => logits.subarray((row + j) * vocabSize, (row + j + 1) * vocabSize));
      row += rows.length;
      take(i, views);
    });
  }
}
