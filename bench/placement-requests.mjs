// Requests of mixed tasks as simulated workers take them: where the bundled model's routers send them, the tables that
// its predictor makes of them, and what whoever chooses a worker may believe of their needs.
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { packFingerprint } from '../dist/checkpoint/identity.js';
import { readManifest } from '../dist/checkpoint/manifest.js';
import { budgetBytes } from '../dist/engine/budget.js';
import { readTokenizer } from '../dist/engine/model-directory.js';
import { runExact } from '../dist/evaluation/model-runner.js';
import { dataSource } from '../dist/evaluation/sources.js';
import { batchOf, fillTable } from '../dist/evaluation/tables.js';
import { loadAddon } from '../dist/native/addon.js';
import { requestNeed } from '../dist/placement/request-need.js';
import { cyclicPermutation } from '../dist/predictor/functions/shuffled.js';
import { routingShape } from '../dist/predictor/hash-function.js';
import { openPredictor } from '../dist/predictor/predictor-directory.js';
import { randomOf } from '../dist/predictor/training/random.js';

const MODEL = 'models/switch-mini';
const LIMITS = { maxBatchTokens: 2048, kvTokens: 8192, threads: 1 };

export class RequestMaker {
  #engine;
  #tokenizer;
  #predictor;
  #shape;
  #names;

  /** `folder`: where the model is packed. */
  static async open(folder) {
    const maker = new RequestMaker();
    const addon = loadAddon();
    const { pack } = await convertCheckpoint({ model: MODEL, out: folder, experts: 'auto', dense: 'auto' });
    const plan = addon.planMemory({ pack }, LIMITS);
    const bytes = { budgetBytes: budgetBytes('100%', plan), hostBudgetBytes: 0 };
    maker.#engine = new addon.Engine({ pack, ...bytes, linkBandwidth: 0, linkLatency: 0, ...LIMITS });
    const model = maker.#engine.shape;
    maker.#shape = routingShape(model);
    maker.#tokenizer = await readTokenizer(MODEL, { vocabSize: model.vocabSize, maxInputBytes: 1 << 20 });
    maker.#predictor = await openPredictor(`${MODEL}/predictor`, {
      model,
      fingerprint: packFingerprint((await readManifest(pack)).files),
      addon,
      embedding: () => new addon.TokenEmbedding({ pack }),
      threads: 1,
    });
    const random = randomOf(1);
    maker.#names = model.moeLayers.map(() => cyclicPermutation(model.experts, random));
    return maker;
  }

  /** Of the model, all layers. */
  get experts() {
    return this.#engine.plan.experts;
  }

  get expertBytes() {
    return this.#engine.plan.slot;
  }

  /** `needs`: by `predicted`, `true` and `shuffled` tables. */
  make({ text, labels }) {
    const shape = this.#engine.shape;
    const limits = { shape, tokenizer: this.#tokenizer, maxBatchTokens: LIMITS.maxBatchTokens };
    const [input] = dataSource('request', [{ line: 1, text }], { labels }, limits).inputs;
    const exact = runExact(this.#engine, input);
    const { function: hash } = this.#predictor;
    const table = (side) => fillTable(hash, this.#shape, side, exact.inputs[side]);
    const tables = { encoder: table('encoder'), decoder: table('decoder') };
    const batch = batchOf(exact, tables, this.#shape.encoderLayers);
    const { encoder, decoder } = batch.foreseen;
    const predicted = requestNeed([...encoder, ...decoder], this.experts);
    return {
      batch,
      tokens: exact.passes.reduce((sum, { tokens }) => sum + tokens, 0),
      needs: { predicted, true: this.#trueNeed(batch), shuffled: predicted && this.#renamed(predicted) },
    };
  }

  #trueNeed({ passes }) {
    const need = new Float64Array(this.experts);
    for (const { visits } of passes) for (const id of visits.flat()) need[id] = 1;
    return need;
  }

  /** As much of each layer, but of other experts. */
  #renamed(need) {
    const { experts } = this.#engine.shape;
    const renamed = new Float64Array(need.length);
    this.#names.forEach((names, layer) => {
      for (let i = 0; i < experts; i++) renamed[layer * experts + names[i]] = need[layer * experts + i];
    });
    return renamed;
  }

  close() {
    this.#predictor.function.close();
    this.#engine.close();
  }
}
