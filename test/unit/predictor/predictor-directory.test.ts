import {
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { writeSafetensors } from '../../../src/checkpoint/safetensors.js';
import { loadAddon } from '../../../src/native/addon.js';
import type { PredictorShape } from '../../../src/native/addon-types.js';
import { openPredictor, type PredictorDirectoryOptions } from '../../../src/predictor/predictor-directory.js';
import type { PredictorManifest } from '../../../src/predictor/training/manifest.js';
import { TokenTableLearner } from '../../../src/predictor/training/token-table-learning.js';
import type { NetworkName } from '../../../src/protocol/predictor-messages.js';
import {
  DECODER,
  ENCODER,
  filled,
  freshPath,
  inputOf,
  LAYERS,
  randomOf,
  recordsOf,
  removeFiles,
  SHAPE,
  WEIGHTS,
} from './routing-fixture.js';

afterAll(removeFiles);

const addon = loadAddon();
const D_MODEL = 16;
const model: PredictorDirectoryOptions['model'] = {
  stacks: [
    { name: 'encoder', layers: 6, moeLayers: [1, 3, 5], causal: false, crosses: false },
    { name: 'decoder', layers: 4, moeLayers: [1, 3], causal: true, crosses: true },
  ],
  moeLayers: LAYERS,
  experts: SHAPE.experts,
  firstExperts: [...SHAPE.firstExperts],
  topK: 1,
  normalized: false,
  vocabSize: SHAPE.vocab,
  width: D_MODEL,
};
const records = recordsOf(400);

const embeddingFile = `${freshPath()}.safetensors`;
mkdirSync(join(embeddingFile, '..'), { recursive: true });
const below = randomOf(4);
writeSafetensors(
  embeddingFile,
  {
    'embedding.weight': {
      shape: [SHAPE.vocab, D_MODEL],
      data: Float32Array.from({ length: SHAPE.vocab * D_MODEL }, () => below(2000) / 1000 - 1),
    },
  },
  {},
);
const embedding = () => new addon.TokenEmbedding({ file: embeddingFile });
const options: PredictorDirectoryOptions = { model, weights: WEIGHTS, addon, embedding };

/** Saves an untrained network into a folder of the directory, which is that of its own kind unless another is given. */
function saveNetwork(
  directory: string,
  side: 'encoder' | 'decoder',
  { folder = 'lstm', ...shape }: Partial<PredictorShape> & { folder?: NetworkName } = {},
): void {
  const trainer = new addon.PredictorTrainer({
    embedding: embedding(),
    settings: {
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 1e-8,
      weightDecay: 0,
      top: 4,
      lambda: 0.5,
      k: 1,
      distillation: 'kl',
      clipNorm: 1,
      threads: 1,
    },
    shape: {
      dIn: D_MODEL,
      hidden: 16,
      layers: side === 'encoder' ? 3 : 2,
      experts: SHAPE.experts,
      causal: side === 'decoder',
      bidirectional: false,
      summary: side === 'decoder',
      ...shape,
    },
    seed: 1,
  });
  mkdirSync(join(directory, folder, side), { recursive: true });
  trainer.save(join(directory, folder, side), false);
  trainer.close();
}

async function predictorDirectory(): Promise<string> {
  const directory = freshPath();
  const learner = new TokenTableLearner(SHAPE);
  for (const record of records) learner.add(record);
  const table = learner.finish();
  for (const side of ['encoder', 'decoder'] as const) {
    saveNetwork(directory, side);
    saveNetwork(directory, side, { folder: 'attention', blocks: 1 });
  }
  const entry = { options: {}, training: [], run: {} };
  writeFileSync(
    join(directory, 'sida-predictor.json'),
    JSON.stringify({
      format: 'sida-predictor',
      version: 2,
      model: { name: 'small', weights: WEIGHTS },
      layers: LAYERS,
      experts: SHAPE.experts,
      vocab: SHAPE.vocab,
      trainedOn: [],
      default: 'lstm',
      networks: {
        lstm: {
          ...entry,
          sharpness: {
            encoder: { alpha: [0.5, 1, 2], chance: [0.5, 2, 3] },
            decoder: { alpha: [1, 0.1], chance: [4, 0.5] },
          },
        },
        attention: entry,
      },
      heldOut: {},
    }),
  );
  table.save(join(directory, 'token.safetensors'));
  return directory;
}

const made = await predictorDirectory();

function copy(change: (directory: string) => void): string {
  const directory = freshPath();
  cpSync(made, directory, { recursive: true });
  change(directory);
  return directory;
}

function editManifest(path: string, change: (manifest: PredictorManifest) => object): void {
  const file = join(path, 'sida-predictor.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify({ ...manifest, ...change(manifest) }));
}

function sharpen(path: string, encoder: { alpha: number[]; chance: number[] }): void {
  editManifest(path, ({ networks }) => ({
    networks: { ...networks, lstm: { ...networks.lstm, sharpness: { encoder } } },
  }));
}

describe('predictor directory', () => {
  it.each(['lstm', 'attention', 'token'] as const)('opens %s', async (kind) => {
    const opened = await openPredictor(made, { ...options, kind });
    expect(opened).toMatchObject({ warnings: [], function: { name: kind } });
    opened.function.close();
  });

  it.each(['lstm', 'attention', 'token'] as const)('opens %s where the manifest names it', async (kind) => {
    const opened = await openPredictor(
      copy((path) => editManifest(path, () => ({ default: kind }))),
      options,
    );
    expect(opened.function.name).toBe(kind);
    opened.function.close();
  });

  it('refuses a kind that it does not hold, and says how to add it', async () => {
    const directory = copy((path) =>
      editManifest(path, ({ networks: { lstm } }) => ({ networks: { lstm } })),
    );
    await expect(openPredictor(directory, { ...options, kind: 'attention' })).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: `${directory} has no attention network: it holds lstm and token; \`sida train --network attention\` adds one`,
    });
  });

  it.skipIf(addon.cuda().compiled)('asks a GPU for lstm, and the CPU for attention', async () => {
    const onGpu = (kind: NetworkName) => openPredictor(made, { ...options, kind, device: 'cuda' });
    await expect(onGpu('lstm')).rejects.toMatchObject({ code: 'device_unavailable' });
    const { function: attention, warnings } = await onGpu('attention');
    expect(warnings).toEqual([`${made}: the CPU runs its attention network; a GPU runs lstm`]);
    attention.close();
  });

  it('opens the default networks, and lists every expert once', async () => {
    const { function: lstm } = await openPredictor(made, options);
    expect(lstm.name).toBe('lstm');
    for (const [side, layers] of [
      [ENCODER, 3],
      [DECODER, 2],
    ] as const) {
      const input = inputOf(records.slice(0, 3), side);
      const rows = layers * input.tokens.length;
      const { known, experts, alpha, chance } = filled(lstm, side, input, 8);
      expect(known).toBe(true);
      for (let row = 0; row < rows; row++) {
        const [begin, end] = [row * 8, row * 8 + 8];
        expect(experts.slice(begin, end).sort()).toEqual(Uint16Array.of(0, 1, 2, 3, 4, 5, 6, 7));
        expect(alpha.subarray(begin, end).reduce((total, value) => total + value, 0)).toBeCloseTo(1, 4);
        // Both kinds of sharpness are equal only in the encoder's first layer.
        expect(chance[begin] === alpha[begin]).toBe(side === ENCODER && row < input.tokens.length);
      }
    }
    lstm.close();
  });

  it('warns that a stack is not predicted if its network is missing', async () => {
    const directory = copy((path) => rmSync(join(path, 'lstm', 'decoder'), { recursive: true }));
    const { function: lstm, warnings } = await openPredictor(directory, options);
    expect(warnings).toEqual([expect.stringContaining('no lstm network of the decoder')]);
    expect(filled(lstm, DECODER, inputOf(records.slice(0, 1), DECODER), 1).known).toBe(false);
    lstm.close();
    const without = copy((path) => {
      for (const side of ['encoder', 'decoder']) rmSync(join(path, 'lstm', side), { recursive: true });
    });
    await expect(openPredictor(without, options)).rejects.toThrow('no network of encoder or decoder');
  });

  it('follows no link of a network out of the predictor', async () => {
    const directory = copy((path) => {
      renameSync(join(path, 'lstm', 'encoder'), `${path}-encoder`);
      symlinkSync(`${path}-encoder`, join(path, 'lstm', 'encoder'));
    });
    await expect(openPredictor(directory, options)).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: expect.stringContaining('encoder: expected a directory that is no link'),
    });
  });

  it('opens what a module makes in its place, in an experiment', async () => {
    const module = `${freshPath()}.mjs`;
    writeFileSync(
      module,
      'export const open = (directory) => ({ function: { name: directory }, warnings: [] });',
    );
    vi.stubEnv('SIDA_HASH_FUNCTION_MODULE', module);
    vi.resetModules();
    const own = await import('../../../src/predictor/predictor-directory.js');
    vi.unstubAllEnvs();
    expect(await own.openPredictor('anywhere', options)).toMatchObject({ function: { name: 'anywhere' } });
  });

  it('warns of other weights and opens the predictor', async () => {
    const opened = await openPredictor(made, { ...options, weights: 'beef', kind: 'token' });
    expect(opened.warnings).toEqual([
      `${made} was made for other weights: it names small with weights f00d, this model has beef; its predictions may be poorer`,
    ]);
  });

  it.each([
    ['layers', { moeLayers: LAYERS.slice(1) }, 'made for 5 MoE layers (encoder.1, encoder.3'],
    ['experts', { experts: 9 }, 'made for 8 experts a layer, the model has 9'],
    ['vocabulary', { vocabSize: 25 }, 'made for a vocabulary of 24, the model has 25'],
    ['choices', { topK: 2 }, 'made for 1 experts a token, the model chooses 2'],
    ['width', { width: 32 }, 'dIn is 16, the model'],
  ])('refuses a model of other %s', async (_, change, message) => {
    await expect(openPredictor(made, { ...options, model: { ...model, ...change } })).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: expect.stringContaining(message),
    });
  });

  it.each([
    [
      'no manifest',
      (path: string) => rmSync(join(path, 'sida-predictor.json')),
      'it has no sida-predictor.json',
    ],
    [
      'a manifest of the layout before this one',
      (path: string) => editManifest(path, () => ({ version: 1, networks: undefined, default: undefined })),
      'sida-predictor.json: version: Expected 2, but got 1; train the predictor again',
    ],
    ['another manifest', (path: string) => writeFileSync(join(path, 'sida-predictor.json'), '{}'), 'format'],
    [
      'a sharpness of 0',
      (path: string) => sharpen(path, { alpha: [1, 0, 2], chance: [1, 2, 3] }),
      'sida-predictor.json: networks.lstm.sharpness',
    ],
  ] as const)('refuses %s', async (what, damage, message) => {
    await expect(openPredictor(copy(damage), options)).rejects.toMatchObject({
      code: what === 'no manifest' ? 'cannot_run' : 'checkpoint_invalid',
      message: expect.stringContaining(message),
    });
  });

  it.each([
    ['no token table', 'token', (path: string) => rmSync(join(path, 'token.safetensors')), 'no such file'],
    [
      'a cut token table',
      'token',
      (path: string) => truncateSync(join(path, 'token.safetensors'), 900),
      'cut',
    ],
    [
      'an empty network',
      'lstm',
      (path: string) => writeFileSync(join(path, 'lstm', 'encoder', 'predictor.json'), ''),
      'predictor.json',
    ],
    [
      'a network of the other stack',
      'lstm',
      (path: string) => saveNetwork(path, 'encoder', { causal: true }),
      'causal',
    ],
    [
      'a network of the other kind in the folder of lstm',
      'lstm',
      (path: string) => saveNetwork(path, 'encoder', { blocks: 1 }),
      'lstm/encoder: a network of kind attention in the folder of lstm',
    ],
    [
      'a network of the other kind in the folder of attention',
      'attention',
      (path: string) => saveNetwork(path, 'decoder', { folder: 'attention' }),
      'attention/decoder: a network of kind lstm in the folder of attention',
    ],
    [
      'a network of fewer layers',
      'lstm',
      (path: string) => saveNetwork(path, 'decoder', { layers: 1 }),
      'decoder: the alpha sharpness has 2 values, the predictor 1 layers',
    ],
    [
      'alpha sharpness of fewer layers',
      'lstm',
      (path: string) => sharpen(path, { alpha: [1, 2], chance: [1, 2, 3] }),
      'encoder: the alpha sharpness has 2 values, the predictor 3 layers',
    ],
    [
      'chance sharpness of more layers',
      'lstm',
      (path: string) => sharpen(path, { alpha: [1, 2, 3], chance: [1, 2, 3, 4] }),
      'encoder: the chance sharpness has 4 values, the predictor 3 layers',
    ],
  ] as const)('refuses %s', async (_, kind, damage, message) => {
    await expect(openPredictor(copy(damage), { ...options, kind })).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: expect.stringContaining(message),
    });
  });
});
