// What may be wrong with the small checkpoint of any family: each kind of its tensors, and each field of its config.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { safetensors, type TensorEntry } from '../../support/tiny-checkpoint.js';
import { type Case, type Harm, OR_TAKEN } from './judge.js';

const FILE = 'model.safetensors';
const CONFIG = 'config.json';

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

/** Other tensors may stand for these. */
const REPLACEABLE = /embed_tokens|lm_head|shared\.weight/;

/** Each kind of tensor missing, and each of another shape or of whole numbers by turns. */
function tensorCases(weights: Weights, layers: number): Case[] {
  const { header, data } = weights;
  const names = Object.keys(header);
  // Layers of multi-token prediction are not read.
  const beyond = (name: string) => Number(/^model\.layers\.(\d+)\./.exec(name)?.[1] ?? 0) >= layers;
  // Names that differ in numbers alone are of one kind.
  const kinds = new Map<string, string>();
  for (const name of names.toReversed()) if (!beyond(name)) kinds.set(name.replaceAll(/\d+/g, 'N'), name);
  const file =
    (bytes: () => Buffer): Harm =>
    (directory) =>
      writeFileSync(join(directory, FILE), bytes());
  return [...kinds.values()].flatMap((name, i) => {
    const entry = header[name]!;
    const { dtype, shape, data_offsets } = entry;
    const change = i % 2 === 0 ? { shape: [1, ...shape] } : { dtype: dtype === 'U8' ? 'I8' : 'I32' };
    const maybe = REPLACEABLE.test(name) ? [OR_TAKEN] : [];
    const without = names.filter((each) => each !== name);
    const changed = { ...header, [name]: { ...entry, ...change } };
    const infinite = () => {
      const bytes = Buffer.from(data);
      bytes[data_offsets[0]] = 255;
      return safetensors(header, bytes);
    };
    const cases: Case[] = [
      [`no ${name}`, file(() => fileOf(weights, without)), ...maybe, 'missing tensor'],
      [
        `${name} with ${JSON.stringify(change)}`,
        file(() => safetensors(changed, data)),
        ...[...maybe, FILE, name, 'expected', 'found'],
      ],
    ];
    if (dtype === 'U8' && name.endsWith('_scales'))
      cases.push([`a scale of 255 in ${name}`, file(infinite), FILE, name, 'a scale of MXFP4', 'found 255']);
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
/** Fields of training and of transformers' own bookkeeping. */
const BOOKKEEPING =
  /^(architectures|dtype|torch_dtype|transformers_version|initializer|.*dropout|use_cache|output_|.*_loss|router_(aux|z)|.*jitter)/;

/** Each field with one of these values: refused by one line about config or weights, or the field is not read. */
function configCases(config: Json, turn: number): Case[] {
  return fieldsOf(config)
    .filter((path) => !BOOKKEEPING.test(path.at(-1)!))
    .map((path, i) => {
      const value = VALUES[(i + turn) % VALUES.length];
      const text = JSON.stringify(withField(config, path, value));
      return [
        `${path.join('.')} is ${JSON.stringify(value)}`,
        (directory) => writeFileSync(join(directory, CONFIG), text),
        ...[OR_TAKEN, /config\.json|model\.safetensors/],
      ];
    });
}

/** Two shards and their index in place of the single file: taken. */
const sharded =
  (weights: Weights): Harm =>
  (directory) => {
    rmSync(join(directory, FILE));
    const names = Object.keys(weights.header);
    const half = names.length >> 1;
    const weight_map: Record<string, string> = {};
    for (const [shard, own] of Object.entries({ a: names.slice(0, half), b: names.slice(half) })) {
      writeFileSync(join(directory, `${shard}.safetensors`), fileOf(weights, own));
      for (const name of own) weight_map[name] = `${shard}.safetensors`;
    }
    writeFileSync(join(directory, `${FILE}.index.json`), JSON.stringify({ metadata: {}, weight_map }));
  };

/** The cases of the checkpoint in `model`. `turn` is where the values of config fields begin to take turns. */
export function familyCases(model: string, turn: number): Case[] {
  const weights = readWeights(join(model, FILE));
  const config = JSON.parse(readFileSync(join(model, CONFIG), 'utf8')) as Json;
  const layers = Number(config.num_hidden_layers ?? Number.POSITIVE_INFINITY);
  const shards: Case = ['two shards and their index', sharded(weights)];
  return [shards, ...tensorCases(weights, layers), ...configCases(config, turn)];
}
