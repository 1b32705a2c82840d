// F15: a predictor that is missing, broken, wrong or slow changes no answer of exact mode, and is reported.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/native/addon.js';
import { makePredictor, type PredictorFiles } from './predictor-files.js';
import { classifyAll, MINI, metricsOf, ServerProcess, sst2 } from './server-process.js';

const sentences = sst2().slice(0, 160);
const prompt = `sst2 sentence: ${sentences[0]!.text}`;
const SERVER = ['--model', MINI, '--memory-budget', '12.5%', '--max-batch-tokens', '256'];
let files: PredictorFiles;
let reference: Awaited<ReturnType<typeof answersOf>>;

async function answersOf(server: ServerProcess) {
  const labels = await classifyAll(server, sentences);
  const completions = await Promise.all(
    [8, 16, 24].map((max_tokens) =>
      server.post('/v1/completions', { prompt, max_tokens, return_token_ids: true }),
    ),
  );
  return { labels, tokens: completions.map(({ body }) => body.choices[0].token_ids as number[]) };
}

beforeAll(async () => {
  files = makePredictor(sentences.slice(0, 60));
  const server = await ServerProcess.start([...SERVER, '--predictor', 'none']);
  reference = await answersOf(server);
  expect((await metricsOf(server))('sida_predictor_up{function="none"}')).toBe(0);
  expect(server.output).not.toMatch(/predictor/i);
  expect(await server.stop()).toBe(0);
});
afterAll(() => files.remove());

/** A copy of the predictor for a test to break. */
function broken(name: string, breakIt: (directory: string) => void): string {
  const directory = join(files.root, name);
  cpSync(files.predictor, directory, { recursive: true });
  breakIt(directory);
  return directory;
}

function editJson(path: string, change: object): void {
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...change }));
}

function weightsIn(stack: string): string {
  return join(stack, readdirSync(stack).find((file) => file.endsWith('.safetensors'))!);
}

/** Replaces every weight, and the digest that names them. */
function fillWeights(stack: string, value: number): void {
  const old = weightsIn(stack);
  const bytes = readFileSync(old);
  for (let at = 8 + Number(bytes.readBigUInt64LE()); at < bytes.length; at += 4)
    bytes.writeFloatLE(value, at);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  rmSync(old);
  writeFileSync(join(stack, `predictor-${sha256.slice(0, 16)}.safetensors`), bytes);
  editJson(join(stack, 'predictor.json'), { weights_sha256: sha256 });
}

/** An untrained network in the place of a trained one. */
function replaceNetwork(stack: string, change: { hidden?: number; experts?: number }): void {
  const addon = loadAddon();
  const { layers, experts, hidden, causal } = JSON.parse(readFileSync(join(stack, 'predictor.json'), 'utf8'));
  const embedding = new addon.TokenEmbedding({ checkpoint: MINI });
  const trainer = new addon.PredictorTrainer({
    embedding,
    seed: 1,
    shape: {
      dIn: embedding.dModel,
      ...{ layers, experts, hidden, causal, ...change },
      ...{ bidirectional: false, positions: false, summary: false },
    },
    settings: {
      ...{ beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 1, threads: 1 },
      ...{ top: 1, lambda: 1, k: 1, distillation: 'kl', studentOverTop: false },
    },
  });
  rmSync(stack, { recursive: true });
  mkdirSync(stack);
  trainer.save(stack, false);
  trainer.close();
}

async function serve(predictor: string, more: string[], check: (server: ServerProcess) => Promise<void>) {
  const server = await ServerProcess.start([...SERVER, '--predictor', predictor, ...more]);
  expect(await answersOf(server)).toEqual(reference);
  await check(server);
  expect(await server.stop()).toBe(0);
}

describe('a predictor that cannot be opened', () => {
  it.each<[string, () => string, RegExp]>([
    ['is not there', () => join(files.root, 'nowhere'), /nowhere.* fetched on demand/],
    [
      'was made for another number of experts',
      () =>
        broken('experts', (directory) => editJson(join(directory, 'sida-predictor.json'), { experts: 32 })),
      /made for 32 experts a layer, the model has 64\. Experts are fetched on demand/,
    ],
    [
      'has a network for another number of experts',
      () => broken('network', (directory) => replaceNetwork(join(directory, 'encoder'), { experts: 32 })),
      /experts is 32, the model's encoder has 64\. Experts are fetched/,
    ],
    [
      'is cut short',
      () => broken('cut', (directory) => truncateSync(weightsIn(join(directory, 'encoder')), 3000)),
      /predictor-.*safetensors.*Experts are fetched/,
    ],
    [
      'has weights that are not numbers',
      () => broken('nan', (directory) => fillWeights(join(directory, 'encoder'), Number.NaN)),
      /expected a finite number.*Experts are fetched/,
    ],
  ])('because it %s: the server serves, says why and is down in the metrics', async (_, make, reason) => {
    await serve(make(), [], async (server) => {
      expect(server.output).toMatch(reason);
      expect((await metricsOf(server))('sida_predictor_up{function="none"}')).toBe(0);
    });
  });
});

describe('a predictor that fails at work', () => {
  it('because its output is not finite: tables are counted as failed, the reason is told once', async () => {
    const directory = broken('overflow', (path) => {
      for (const stack of ['encoder', 'decoder']) fillWeights(join(path, stack), 3e38);
    });
    await serve(directory, [], async (server) => {
      const metric = await metricsOf(server);
      expect(metric('sida_predictor_up{function="lstm"}')).toBe(1);
      expect(metric('sida_hash_tables_total{state="failed"}')).toBeGreaterThan(0);
      expect(metric('sida_hash_tables_total{state="ready"}')).toBe(0);
      expect(server.output.match(/cannot name the experts .*: its output is not finite/g)).toHaveLength(1);
    });
  });

  it('because it is always wrong, and sure of it: its tables are not believed for long', async () => {
    const stack = { alpha: [1, 1], chance: [300, 300] };
    const sharpness = { encoder: stack, decoder: stack };
    const sure = broken('sure', (path) => editJson(join(path, 'sida-predictor.json'), { sharpness }));
    await serve(sure, ['--hash-function', 'shuffled'], async (server) => {
      const distrusted = async () => (await metricsOf(server))('sida_predictor_distrusted_passes_total') > 0;
      await server.until(async () => {
        // One by one: a large batch needs so many experts that wrong names come true by chance.
        for (const { text } of sentences.slice(0, 8)) {
          await server.post('/v1/completions', { prompt: text, max_tokens: 24 });
        }
        return distrusted();
      });
      expect(await classifyAll(server, sentences)).toEqual(reference.labels);
      expect((await metricsOf(server))('sida_prefetches_wasted_total')).toBeGreaterThan(42);
    });
  });

  it('because it is far slower than a pass: tables are given up, and then not begun', async () => {
    const directory = broken('slow', (path) => {
      for (const stack of ['encoder', 'decoder']) replaceNetwork(join(path, stack), { hidden: 896 });
    });
    await serve(directory, [], async (server) => {
      const metric = await metricsOf(server);
      expect(metric('sida_hash_tables_total{state="abandoned"}')).toBeGreaterThan(0);
      expect(metric('sida_hash_tables_total{state="skipped"}')).toBeGreaterThan(0);
    });
  });
});
