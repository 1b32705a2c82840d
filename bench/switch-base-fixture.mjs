// A Switch-base shape with random weights and a predictor trained on its routing, for benches of systems: too big to
// train here, so its routing is that of random routers, and only ratios of time and bytes mean anything.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatBytes } from '../dist/config/bytes.js';

export const TEMPLATE = 'sst2 sentence: {text}';
const node = (...args) => execFileSync('node', args, { stdio: ['ignore', 'ignore', 'inherit'] });
const rows = (file, count) => readFileSync(file, 'utf8').split('\n', count).filter(Boolean);

/**
 * `shape`: the options of make-switch-checkpoint.mjs by name. What `dir` holds already is used again: the pack, and
 * with `again` also the traces and the predictor.
 */
export class SwitchBaseFixture {
  #options;
  /** What each step took. */
  seconds = {};

  constructor({
    dir,
    shape,
    experts = 'auto',
    trainData,
    trainSentences,
    minutes,
    threads,
    batchTokens,
    again = false,
  }) {
    this.#options = { dir, shape, experts, trainData, trainSentences, minutes, threads, batchTokens, again };
  }

  at(name) {
    return join(this.#options.dir, name);
  }

  /** Makes what is missing, for `sentences` of SST-2's validation set. Returns their lines. */
  async make(sentences) {
    const { trainData, trainSentences, minutes, threads, again } = this.#options;
    if (!existsSync(this.at('pack/manifest.json'))) {
      this.#checkRoom();
      await this.#step('make the model', () => this.#makePack());
    }
    const held = rows('test/data/sst2-validation.jsonl', sentences);
    const made = (name, file) => again && existsSync(join(this.at(name), file));
    const traceOf = async (name, lines, out) => {
      const file = this.at(`${name}.jsonl`);
      const text = lines.join('\n');
      if (made(out, 'trace.json') && existsSync(file) && readFileSync(file, 'utf8') === text) return;
      rmSync(this.at(out), { recursive: true, force: true });
      writeFileSync(file, text);
      await this.#step(`trace ${name}`, () => this.#trace(file, this.at(out)));
    };
    await traceOf('train', rows(trainData, trainSentences), 'trace-train');
    await traceOf('validation', held, 'trace-validation');
    if (!made('predictor', 'sida-predictor.json')) {
      await this.#step('train', () => {
        node('dist/cli/main.js', 'train', this.at('trace-train'), '--out', this.at('predictor'), '--preset', 'recommended',
          '--max-minutes', String(minutes), '--threads', String(threads)); // biome-ignore format: a command line
      });
    }
    return held;
  }

  async #step(name, work) {
    const begin = performance.now();
    await work();
    this.seconds[name] = (performance.now() - begin) / 1000;
    console.error(`${name}: ${this.seconds[name].toFixed(0)} s`);
  }

  #checkRoom() {
    const { dir, shape } = this.#options;
    const layers = Number(shape.layers) + Number(shape['decoder-layers'] ?? shape.layers);
    const parameters = Number(shape.experts) * layers * shape['d-model'] * shape['d-ff'];
    const needed = 2.2 * 2 * parameters;
    const { bavail, bsize } = statfsSync(dir);
    if (bavail * bsize < needed) {
      throw new Error(`${dir} has ${formatBytes(bavail * bsize)} free, ${formatBytes(needed)} are needed`);
    }
  }

  #makePack() {
    const { shape, experts } = this.#options;
    const model = this.at('model');
    const options = Object.entries(shape).flatMap(([name, value]) => [`--${name}`, String(value)]);
    node(
      'bench/make-switch-checkpoint.mjs',
      '--out',
      model,
      ...options,
      '--dtype',
      'bf16',
      '--vocab',
      '8000',
    );
    copyFileSync('models/switch-mini/tokenizer.json', join(model, 'tokenizer.json'));
    node('dist/cli/main.js', 'convert', model, '--out', this.at('pack'), '--experts', experts);
    rmSync(model, { recursive: true });
  }

  #trace(file, out) {
    const { threads, batchTokens } = this.#options;
    node('dist/cli/main.js', 'trace', this.at('pack'), '--data', file, '--template', TEMPLATE, '--out', out,
      '--max-new-tokens', '1', '--memory-budget', '100%', '--max-batch-tokens', String(batchTokens), '--threads', String(threads)); // biome-ignore format: a command line
  }
}
