// What may be wrong with the small checkpoint of any family: each kind of its tensors, and each field of its config.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { safetensors, type TensorEntry } from '../../support/tiny-checkpoint.js';
import type { CheckpointCase } from './case.js';

const FILE = 'model.safetensors';
const CONFIG = 'config.json';
const INDEX = 'model.safetensors.index.json';

type Header = Record<string, TensorEntry>;
type Json = Record<string, unknown>;

interface Weights {
  header: Header;
  data: Buffer;
}

function readWeights(path: string): Weights {
  const bytes = readFileSync(path);
  const end = 8 + Number(bytes.readBigUInt64LE());
  const { __metadata__: _, ...header } = JSON.parse(bytes.subarray(8, end).toString());
  return { header, data: bytes.subarray(end) };
}

/** A file of these tensors alone, without holes. */
function fileOf({ header, data }: Weights, names: readonly string[]): Buffer {
  const kept: Header = {};
  const parts: Buffer[] = [];
  let at = 0;
  for (const name of names) {
    const { data_offsets, ...entry } = header[name]!;
    const part = data.subarray(...data_offsets);
    kept[name] = { ...entry, data_offsets: [at, at + part.length] };
    parts.push(part);
    at += part.length;
  }
  return safetensors(kept, Buffer.concat(parts));
}

/** One tensor of each kind: names that differ in numbers alone are of one kind. */
function oneOfEach(names: readonly string[]): string[] {
  const kinds = new Map<string, string>();
  for (const name of names) {
    const kind = name.replaceAll(/\d+/g, 'N');
    if (!kinds.has(kind)) kinds.set(kind, name);
  }
  return [...kinds.values()];
}

/** Other tensors may stand for these. */
const REPLACEABLE = /embed_tokens|lm_head|shared\.weight/;

/** Each kind of tensor missing, and each of another shape or of whole numbers by turns. */
function tensorCases(weights: Weights, layers: number): CheckpointCase[] {
  const { header, data } = weights;
  const names = Object.keys(header);
  // Layers of multi-token prediction are not read.
  const beyond = (name: string) => Number(/^model\.layers\.(\d+)\./.exec(name)?.[1] ?? 0) >= layers;
  const file = (bytes: Buffer) => (directory: string) => writeFileSync(join(directory, FILE), bytes);
  return oneOfEach(names.filter((name) => !beyond(name))).flatMap((name, i): CheckpointCase[] => {
    const { dtype, shape, data_offsets } = header[name]!;
    const change = i % 2 === 0 ? { shape: [1, ...shape] } : { dtype: dtype === 'U8' ? 'I8' : 'I32' };
    const common = { item: 41, orTaken: REPLACEABLE.test(name) };
    const cases: CheckpointCase[] = [
      {
        ...common,
        what: `no ${name}`,
        harm: (directory) =>
          file(
            fileOf(
              weights,
              names.filter((each) => each !== name),
            ),
          )(directory),
        says: ['missing tensor'],
      },
      {
        ...common,
        what: `${name} with ${JSON.stringify(change)}`,
        harm: (directory) =>
          file(safetensors({ ...header, [name]: { dtype, shape, data_offsets, ...change } }, data))(
            directory,
          ),
        says: [FILE, name, 'expected', 'found'],
      },
    ];
    if (dtype === 'U8' && name.endsWith('_scales')) {
      cases.push({
        item: 41,
        what: `a scale of 255 in ${name}`,
        harm: (directory) => {
          const bytes = Buffer.from(data);
          bytes[data_offsets[0]] = 255;
          file(safetensors(header, bytes))(directory);
        },
        says: [FILE, name, 'a scale of MXFP4', 'found 255'],
      });
    }
    return cases;
  });
}

/** Fields of a config and of the objects in it, by their paths. */
function fieldsOf(config: Json, path: string[] = []): string[][] {
  return Object.entries(config).flatMap(([name, value]) => {
    const own = [...path, name];
    const object = typeof value === 'object' && value !== null && !Array.isArray(value);
    return object ? [own, ...fieldsOf(value as Json, own)] : [own];
  });
}

function withField(config: Json, [name, ...rest]: string[], value: unknown): Json {
  return { ...config, [name!]: rest.length === 0 ? value : withField(config[name!] as Json, rest, value) };
}

/** What a reader might take for a number, a list or an object, until it computes with it. */
const VALUES = [-1, 1e9, 'x', { x: [] }];

/** Each field with one of these values: refused by one line about config or weights, or the field is not read. */
function configCases(config: Json, turn: number): CheckpointCase[] {
  return fieldsOf(config)
    .filter((path) => !BOOKKEEPING.test(path.at(-1)!))
    .map((path, i) => {
      const value = VALUES[(i + turn) % VALUES.length];
      return {
        item: 41,
        what: `${path.join('.')} is ${JSON.stringify(value)}`,
        harm: (directory: string) =>
          writeFileSync(join(directory, CONFIG), JSON.stringify(withField(config, path, value))),
        says: [/config\.json|model\.safetensors/],
        orTaken: true,
      };
    });
}

/** Fields of training and of transformers' own bookkeeping. */
const BOOKKEEPING =
  /^(architectures|dtype|torch_dtype|transformers_version|initializer|.*dropout|use_cache|output_|.*_loss|router_(aux|z)|.*jitter)/;

/** Two shards and their index: taken. */
function sharded(weights: Weights): CheckpointCase {
  const names = Object.keys(weights.header);
  const half = names.length >> 1;
  return {
    item: 40,
    what: 'two shards and their index',
    harm: (directory) => {
      // A single file would be read without the index.
      rmSync(join(directory, FILE));
      const map: Record<string, string> = {};
      for (const [shard, own] of [
        ['a.safetensors', names.slice(0, half)],
        ['b.safetensors', names.slice(half)],
      ] as const) {
        writeFileSync(join(directory, shard), fileOf(weights, own));
        for (const name of own) map[name] = shard;
      }
      writeFileSync(join(directory, INDEX), JSON.stringify({ metadata: {}, weight_map: map }));
    },
  };
}

/** The cases of the checkpoint in `model`. `turn` is where the values of config fields begin to take turns. */
export function familyCases(model: string, turn: number): CheckpointCase[] {
  const weights = readWeights(join(model, FILE));
  const config = JSON.parse(readFileSync(join(model, CONFIG), 'utf8')) as Json;
  const layers = Number(config.num_hidden_layers ?? Number.POSITIVE_INFINITY);
  return [sharded(weights), ...tensorCases(weights, layers), ...configCases(config, turn)];
}
