// `sida trace`, `train`, `eval` and `serve --predictor` where dense and MoE layers alternate, and where a stack begins
// with dense layers. eval.test.ts and train.test.ts have an encoder and a decoder.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readMeta } from '../../../src/trace/trace-file.js';
import { byteTokenizer } from '../../support/byte-tokenizer.js';
import { oracleFixture } from '../../support/oracle-fixture.js';
import { metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';
import { outputOf } from '../../support/sida-process.js';

interface Kind {
  what: string;
  fixture: string;
  stacks: string[];
  layers: string[];
  experts: number;
  topK: number;
  end: number;
  /** Fields of `experts` in answers and values of `top` in metrics. */
  hits: [narrow: string, wide: string];
  tops: [narrow: number, wide: number];
  /** What `sida eval` runs in the decoder. */
  decoded: string[];
}

const KINDS: Kind[] = [
  {
    what: 'every other layer of a decoder dense',
    fixture: 'qwen2-moe-tiny',
    stacks: ['decoder'],
    layers: ['decoder.1', 'decoder.3'],
    ...{ experts: 12, topK: 4, end: 2, hits: ['hits_top_k', 'hits_top_2k'], tops: [4, 8] },
    decoded: ['--max-new-tokens', '5'],
  },
  {
    what: 'the first layer of a decoder dense',
    fixture: 'deepseek-v3-tiny',
    stacks: ['decoder'],
    layers: ['decoder.1', 'decoder.2', 'decoder.3'],
    ...{ experts: 16, topK: 4, end: 2, hits: ['hits_top_k', 'hits_top_2k'], tops: [4, 8] },
    decoded: ['--max-new-tokens', '5'],
  },
];

interface Evaluated {
  functions: Record<string, { hits: number[] }>;
}

const root = mkdtempSync(join(tmpdir(), 'sida-kinds-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (...names: string[]) => join(root, ...names);
const texts = () =>
  sst2()
    .slice(0, 120)
    .map(({ text }, i) => text.slice(0, 24 + (i % 9)));

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

for (const { what, fixture, stacks, layers, experts, topK, end, hits, tops, decoded } of KINDS) {
  const directory = oracleFixture(fixture);
  const model = at(fixture);
  const trace = at(`${fixture}-trace`);
  const predictor = at(`${fixture}-predictor`);
  const data = ['--data', at('data.jsonl'), '--template', '{text}'];
  const packs = ['--pack-dir', at('packs'), '--threads', '1'];

  describe(`${what}: ${fixture}`, () => {
    beforeAll(() => {
      cpSync(directory, model, { recursive: true });
      writeFileSync(join(model, 'tokenizer.json'), JSON.stringify(byteTokenizer(end)));
      const rows = texts().map((text, i) => JSON.stringify({ text, label: 'ab'[i % 2] }));
      writeFileSync(at('data.jsonl'), rows.join('\n'));
      outputOf('trace', model, ...data, '--out', trace, ...packs, '--max-new-tokens', '5', '--kv', 'f32');
      const network = ['--hidden', '32', '--lr', '1e-2', '--batch', '16', '--epochs', '6', '--threads', '1'];
      outputOf('train', trace, '--out', predictor, ...network);
    });

    it('traces the MoE layers alone, under their numbers in the stack', async () => {
      expect(await readMeta(trace)).toMatchObject({ stacks, layers, topK, complete: true });
    });

    it('trains networks and token tables that are better than chance', () => {
      const manifest = JSON.parse(readFileSync(join(predictor, 'sida-predictor.json'), 'utf8'));
      expect(manifest).toMatchObject({ layers, topK });
      for (const each of Object.values<{ hits: number[] }[]>(manifest.heldOut)) {
        expect(each).toHaveLength(layers.length);
        expect(mean(each.map((layer) => layer.hits[0]!))).toBeGreaterThan(topK / experts);
      }
    });

    it('evaluates', () => {
      const args = ['--predictor', predictor, '--limit', '20'];
      const report = JSON.parse(outputOf('eval', model, ...packs, ...args, ...data, ...decoded, '--json'));
      const [source] = report.sources;
      expect(source.layers.map(({ layer }: { layer: string }) => layer)).toEqual(layers);
      const hitsOf = (rank: number) =>
        mean(source.layers.map(({ functions }: Evaluated) => functions.lstm!.hits[rank]!));
      expect(hitsOf(0)).toBeGreaterThan(topK / experts);
      expect(hitsOf(1)).toBeGreaterThanOrEqual(hitsOf(0));
    });

    const servers: ServerProcess[] = [];
    // A test that fails leaves no server behind.
    afterEach(async () => {
      for (const server of servers.splice(0)) if (server.alive) await server.stop();
    });
    const serve = async (...more: string[]) => {
      const flags = ['--model', model, '--memory-budget', '50%', '--threads', '1', '--predictor', ...more];
      const server = await ServerProcess.launch(flags);
      servers.push(server);
      await server.ready(120_000);
      return server;
    };
    const completions = async (server: ServerProcess) => {
      const answers = [];
      for (const prompt of texts().slice(0, 6)) {
        const request = { prompt, max_tokens: 4, return_token_ids: true, include: ['experts'] };
        const { status, body } = await server.post('/v1/completions', request);
        expect(status, JSON.stringify(body)).toBe(200);
        answers.push(body);
      }
      return answers;
    };
    it('serves the same tokens as without a predictor, and counts its hits', async () => {
      const plain = await serve('none');
      const expected = await completions(plain);
      await plain.stop();
      const server = await serve(predictor);
      const answers = await completions(server);
      expect(answers.map(({ choices }) => choices)).toEqual(expected.map(({ choices }) => choices));
      const [predicted, narrow, wide] = ['predicted', ...hits].map((field) =>
        answers.reduce((sum, { experts: cost }) => sum + cost[field], 0),
      ) as [number, number, number];
      expect(narrow / predicted).toBeGreaterThan(topK / experts);
      expect(narrow / predicted).toBeLessThanOrEqual(1);
      expect(wide).toBeGreaterThanOrEqual(narrow);
      // The server counts what its answers cost, and nothing else ran.
      await server.until(async () => {
        const metric = await metricsOf(server);
        const own = tops.map((top) => metric(`sida_predictor_hits_total{top="${top}"}`));
        return isDeepStrictEqual(
          [metric('sida_predictor_routings_total'), ...own],
          [predicted, narrow, wide],
        );
      });
      await server.stop();
    });
  });
}
