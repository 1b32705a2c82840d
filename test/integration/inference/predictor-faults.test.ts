// A predictor that is missing, broken, wrong or slow is reported and changes no answer of exact mode.
import { mkdirSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  broken,
  makeOverflow,
  makeSlow,
  makeSure,
  networkOf,
  weightsIn,
} from '../../support/broken-predictors.js';
import { makePredictor, type PredictorFiles, withTables } from '../../support/predictor-files.js';
import { classifyAll, MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';
import { SidaProcess } from '../../support/sida-process.js';

const sentences = sst2().slice(0, 48);
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
  files = makePredictor(sentences);
  const server = await ServerProcess.start([...SERVER, '--predictor', 'none']);
  reference = await answersOf(server);
  expect((await metricsOf(server))('sida_predictor_up{function="none"}')).toBe(0);
  expect(server.output).toContain(' · no predictor');
  expect(server.output).not.toMatch(/is no predictor|WITHOUT the predictor|fetched on demand/);
  expect(await server.stop()).toBe(0);
});
afterAll(() => files.remove());

async function serve(
  predictor: string,
  start: (args: string[]) => Promise<ServerProcess>,
  check: (server: ServerProcess) => Promise<void>,
) {
  const server = await start([...SERVER, '--predictor', predictor]);
  expect(await answersOf(server)).toEqual(reference);
  await check(server);
  expect(await server.stop()).toBe(0);
}

const emptyDirectory = (directory: string) => {
  rmSync(directory, { recursive: true });
  mkdirSync(directory);
};

it('refuses to start with a predictor whose path does not exist', async () => {
  const sida = new SidaProcess(['serve', ...SERVER, '--predictor', join(files.root, 'nowhere')]);
  expect(await sida.exit).toBe(2);
  expect(sida.output).toMatch(
    /^sida: The "--predictor" option names ".*nowhere", which does not exist: .*\n$/,
  );
});

describe('a predictor that cannot be opened', () => {
  it.each<[string, () => string, RegExp]>([
    ['is empty', () => broken(files, 'empty', emptyDirectory), /empty.* fetched on demand/],
    [
      'is cut short',
      () =>
        broken(files, 'cut', (directory) => truncateSync(weightsIn(networkOf(directory, 'encoder')), 3000)),
      /predictor-.*safetensors.*Experts are fetched/,
    ],
  ])('because it %s: the server runs, logs why and reports 0 in its metrics', async (_, make, reason) => {
    await serve(make(), ServerProcess.start, async (server) => {
      expect(server.output).toMatch(reason);
      expect((await metricsOf(server))('sida_predictor_up{function="none"}')).toBe(0);
    });
  });
});

describe('a predictor that fails at run time', () => {
  it('because its output is not finite: tables are counted as failed, and the reason is logged once', async () => {
    const directory = broken(files, 'overflow', makeOverflow);
    await serve(directory, ServerProcess.start, async (server) => {
      const metric = await metricsOf(server);
      expect(metric('sida_predictor_up{function="lstm"}')).toBe(1);
      expect(metric('sida_hash_tables_total{state="failed"}')).toBeGreaterThan(0);
      expect(metric('sida_hash_tables_total{state="ready"}')).toBe(0);
      expect(server.output.match(/cannot name the experts .*: its output is not finite/g)).toHaveLength(1);
    });
  });

  it('because it is always wrong with high chances: prefetching by its tables soon stops', async () => {
    const sure = broken(files, 'sure', makeSure);
    const wrong = (args: string[]) => withTables('shuffled', () => ServerProcess.start(args));
    await serve(sure, wrong, async (server) => {
      // One request at a time: a large batch needs so many experts that wrong predictions come true by chance.
      const prefetches = async () => {
        for (const { text } of sentences.slice(0, 8)) {
          await server.post('/v1/completions', { prompt: text, max_tokens: 24 });
        }
        return (await metricsOf(server))('sida_prefetches_total');
      };
      const learned = await prefetches();
      expect(learned).toBeGreaterThan(0);
      // If the tables were still trusted, each of the 192 passes would prefetch experts in four layers.
      expect((await prefetches()) - learned).toBeLessThan(64);
      expect(await classifyAll(server, sentences)).toEqual(reference.labels);
    });
  });

  it('because it is far slower than a pass: tables are abandoned, and then skipped', async () => {
    const directory = broken(files, 'slow', makeSlow);
    await serve(directory, ServerProcess.start, async (server) => {
      const tables = async (state: string) =>
        (await metricsOf(server))(`sida_hash_tables_total{state="${state}"}`);
      // The thread counts a table once it is built.
      await expect.poll(() => tables('abandoned')).toBeGreaterThan(0);
      expect(await tables('skipped')).toBeGreaterThan(0);
    });
  });
});
