// Copies of models whose experts are filled with zeros: the same logits and answers, bit for bit, from larger experts.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../../src/checkpoint/converter.js';
import { readSafetensors, writeSafetensors } from '../../../src/checkpoint/safetensors.js';
import { loadAddon } from '../../../src/native/addon.js';
import { type Activations, NO_PARENT, type PackFormats } from '../../../src/native/addon-types.js';
import { ServerProcess, sst2 } from '../../../test/support/server-process.js';
import { REPOSITORY } from '../../src/support/paths.js';

const root = mkdtempSync(join(tmpdir(), 'sida-padded-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string) => join(root, name);
const TINY = join(REPOSITORY, 'test/fixtures');
const addon = loadAddon();

function padExperts(...args: string[]) {
  const script = join(REPOSITORY, 'bench/scripts/padded/pad-experts.mjs');
  return spawnSync(process.execPath, [script, ...args], { cwd: REPOSITORY, encoding: 'utf8' });
}

function pad(model: string, name: string, ...size: string[]): string {
  const { status, stderr } = padExperts('--model', model, '--out', at(name), ...size);
  expect(status, stderr).toBe(0);
  return at(name);
}

const config = (model: string) => JSON.parse(readFileSync(join(model, 'config.json'), 'utf8'));

const FORMATS = {
  f32: { experts: { dtype: 'f32' }, dense: { dtype: 'f32' } },
  bf16: { experts: { dtype: 'bf16' }, dense: { dtype: 'bf16' } },
  int8: { experts: { dtype: 'int8' }, dense: { dtype: 'int8' } },
  int4: { experts: { dtype: 'int4', group: 32 }, dense: { dtype: 'bf16' } },
  mxfp4: { experts: { dtype: 'mxfp4' }, dense: { dtype: 'bf16' } },
} satisfies Record<string, PackFormats>;
const TOKENS = Int32Array.from({ length: 40 }, (_, i) => 3 + ((i * 37) % 500));
const LIMITS = { maxBatchTokens: 64, kvTokens: 128, threads: 1 };
let packs = 0;

/** The bits of the logits after each token, at a share of the experts, and the bytes of an expert's slot. */
async function logitsOf(
  model: string,
  formats: PackFormats,
  activations: Activations,
  budget: 'all' | 'smallest',
) {
  const { pack } = await convertCheckpoint({ model, out: at(`pack-${packs++}`), ...formats });
  const limits = { ...LIMITS, activations };
  const plan = addon.planMemory({ pack }, limits);
  const budgetBytes = budget === 'all' ? plan.resident : plan.smallest;
  const store = { budgetBytes, hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };
  const engine = new addon.Engine({ pack, ...store, ...limits });
  const one = { offsets: Int32Array.of(0, TOKENS.length), tokens: TOKENS };
  const logitRows = Int32Array.from(TOKENS.keys());
  try {
    const decodes = engine.shape.stacks.length > 1;
    const first = { stack: 0, sequences: Int32Array.of(1), ...one };
    if (!decodes) return { slot: plan.slot, ...bits(engine.runBatch({ ...first, logitRows }, null)) };
    engine.runBatch({ ...first, parents: Int32Array.of(NO_PARENT) }, null);
    const second = { stack: 1, sequences: Int32Array.of(2), parents: Int32Array.of(1), ...one, logitRows };
    return { slot: plan.slot, ...bits(engine.runBatch(second, null)) };
  } finally {
    engine.close();
    rmSync(pack, { recursive: true });
  }
}

const bits = ({ logits }: { logits?: Float32Array }) => ({ logits: Buffer.from(logits!.slice().buffer) });

describe.each(['switch-tiny', 'olmoe-tiny'])('%s', (name) => {
  const model = join(TINY, name);
  // Whole panels and groups, and a width that is a multiple of nothing.
  const padded: string[] = [];
  beforeAll(() => {
    for (const ff of ['1024', '333']) padded.push(pad(model, `${name}-${ff}`, '--ff', ff));
  });

  describe.each(Object.entries(FORMATS))('with experts of %s', (_, formats) => {
    const { dtype } = formats.experts;
    const rounded = dtype === 'bf16' ? 'bf16' : 'int8';
    const activations: Activations[] = ['bf16', 'int8', 'int4'].includes(dtype) ? ['f32', rounded] : ['f32'];
    it.each(activations)('and activations of %s has the logits of the model', async (type) => {
      const plain = await logitsOf(model, formats, type, 'all');
      for (const copy of padded) {
        for (const budget of ['all', 'smallest'] as const) {
          const { logits, slot } = await logitsOf(copy, formats, type, budget);
          expect(logits.equals(plain.logits), `${copy} ${budget}`).toBe(true);
          expect(slot).toBeGreaterThan(2 * plain.slot);
        }
      }
    });
  });
});

it('takes a width in whole panels from the bytes of an expert', async () => {
  const copy = pad(join(TINY, 'olmoe-tiny'), 'bytes', '--expert-bytes', '100kB');
  // Three matrices of 64 columns in f32: 100,000 / 768 = 130.2.
  expect(config(copy)).toEqual({ ...config(join(TINY, 'olmoe-tiny')), intermediate_size: 160 });
  expect(statSync(join(copy, 'generation_config.json')).size).toBeGreaterThan(0);
});

it('pads a checkpoint in shards, of which one has no expert', async () => {
  const [model, split] = [join(TINY, 'olmoe-tiny'), at('split')];
  mkdirSync(split);
  copyFileSync(join(model, 'config.json'), join(split, 'config.json'));
  const { tensors } = readSafetensors(join(model, 'model.safetensors'));
  const map: Record<string, string> = {};
  const files = { 'a.safetensors': /\.experts\./, 'b.safetensors': /^(?!.*\.experts\.)/ };
  for (const [file, names] of Object.entries(files)) {
    const own = [...tensors].filter(([name]) => names.test(name));
    for (const [name] of own) map[name] = file;
    const data = own.map(([name, { shape, data }]) => [name, { shape, data: data() }]);
    writeSafetensors(join(split, file), Object.fromEntries(data), { format: 'pt' });
  }
  writeFileSync(join(split, 'model.safetensors.index.json'), JSON.stringify({ weight_map: map }));
  const copy = pad(split, 'split-padded', '--ff', '200');
  const index = JSON.parse(readFileSync(join(copy, 'model.safetensors.index.json'), 'utf8'));
  const whole = statSync(join(model, 'model.safetensors')).size;
  expect(index.weight_map).toEqual(map);
  expect(index.metadata.total_size).toBeGreaterThan(1.5 * whole);
  const plain = await logitsOf(model, FORMATS.f32, 'f32', 'all');
  expect((await logitsOf(copy, FORMATS.f32, 'f32', 'smallest')).logits.equals(plain.logits)).toBe(true);
});

it('refuses what it cannot pad, and writes nothing', () => {
  const model = join(TINY, 'olmoe-tiny');
  const other = at('other');
  mkdirSync(other);
  writeFileSync(join(other, 'config.json'), JSON.stringify({ model_type: 'bert' }));
  const cut = at('cut');
  mkdirSync(cut);
  copyFileSync(join(model, 'config.json'), join(cut, 'config.json'));
  const weights = readFileSync(join(model, 'model.safetensors'));
  writeFileSync(join(cut, 'model.safetensors'), weights.subarray(0, weights.length - 1));
  const cases: [args: string[], message: RegExp][] = [
    [
      ['--model', cut, '--ff', '200'],
      /tensor .* expected a shape and data within \d+ bytes; the file may have been cut/,
    ],
    [['--model', model, '--ff', '96'], /width of 96: expected .* above the model's 96 and at most 262144/],
    [['--model', model, '--ff', 'wide'], /--ff wide: expected a whole number/],
    [['--model', model], /expected one of --ff N and --expert-bytes SIZE/],
    [['--model', model, '--expert-bytes', '25 rooms'], /expected a size like 25MB/],
    [['--model', other, '--ff', '200'], /model_type is bert, expected one of switch_transformers, olmoe/],
    [['--model', at('nowhere'), '--ff', '200'], /nowhere\/config.json does not exist/],
    [['--model', model, '--ff', '200', '--out', other], /other is not empty/],
  ];
  for (const [args, message] of cases) {
    const { status, stderr } = padExperts('--out', at('refused'), ...args);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  }
  expect(() => statSync(at('refused'))).toThrow('ENOENT');
  expect(padExperts('--help').stdout).toContain('Examples:');
});

describe('servers of the bundled models', () => {
  const REQUESTS = {
    'switch-mini': [
      '/v1/classify',
      {
        task: 'sst2',
        input: sst2()
          .slice(0, 32)
          .map(({ text }) => text),
      },
    ],
    'olmoe-mini': ['/v1/completions', { prompt: 'A falcon is a', max_tokens: 24, logprobs: 3 }],
  } as const;

  async function answer(model: string, name: keyof typeof REQUESTS, budget: string) {
    const server = await ServerProcess.start(['--model', model, '--memory-budget', budget, '--threads', '1']);
    try {
      const [path, body] = REQUESTS[name];
      const { status, body: found } = await server.post(path, body);
      expect(status, JSON.stringify(found)).toBe(200);
      return found.data ?? found.choices;
    } finally {
      await server.stop();
    }
  }

  it.each(Object.keys(REQUESTS) as (keyof typeof REQUESTS)[])(
    'give the answers and log-probabilities of %s, with its tokenizer, tasks and predictor',
    async (name) => {
      const model = join(REPOSITORY, 'models', name);
      const copy = pad(model, name, '--ff', '608');
      const plain = await answer(model, name, '100%');
      expect(await answer(copy, name, '100%')).toEqual(plain);
      expect(await answer(copy, name, '12.5%')).toEqual(plain);
    },
  );
});
