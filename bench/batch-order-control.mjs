// The hash-building thread with a batcher whose order is told wrong experts: each input's are those of another one that
// waited before. Tables and what moves are right, so what overlap gains beyond this it gains by knowing.
import { Batcher } from '../dist/engine/batcher.js';
import { runHashBuilder } from '../dist/predictor/hash-builder.js';
import { randomOf } from '../dist/predictor/training/random.js';

class MisledBatcher extends Batcher {
  #random = randomOf(1);
  #sets = [];

  name(waiting, tables) {
    super.name(waiting, tables);
    this.#sets.push(waiting.experts);
    waiting.experts = this.#sets[Math.floor(this.#random() * this.#sets.length)];
  }
}

await runHashBuilder((options) => new MisledBatcher(options));
