// What may be wrong with an index and its shards, and with a config that does not fit the weights.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { safetensors, TINY_CONFIG, tinyShapes, zeros } from '../../support/tiny-checkpoint.js';
import type { Case, Harm } from './judge.js';

const INDEX = 'model.safetensors.index.json';
const shapes = tinyShapes();
const names = Object.keys(shapes);
const half = names.length >> 1;
const first = names[0]!;

type Index = Record<string, unknown> & { weight_map: Record<string, string> };

/** Splits the checkpoint into two shards; the second may have `more`. `change` gives other fields of the index. */
const sharded =
  (
    change: (map: Index['weight_map'], directory: string) => Partial<Index> = () => ({}),
    more: string[] = [],
  ): Harm =>
  (directory) => {
    rmSync(join(directory, 'model.safetensors'));
    const weight_map: Index['weight_map'] = {};
    for (const [shard, own] of Object.entries({
      a: names.slice(0, half),
      b: [...more, ...names.slice(half)],
    })) {
      const { header, data } = zeros(Object.fromEntries(own.map((name) => [name, shapes[name]!])));
      writeFileSync(join(directory, `${shard}.safetensors`), safetensors(header, data));
      for (const name of own) weight_map[name] ??= `${shard}.safetensors`;
    }
    const index = { metadata: {}, weight_map, ...change(weight_map, directory) };
    writeFileSync(join(directory, INDEX), JSON.stringify(index));
  };

/** The index names another file too, which `make` makes. */
const elsewhere = (shard: string, make: (path: string) => void = () => undefined) =>
  sharded((map, directory) => {
    make(join(directory, shard));
    return { weight_map: { ...map, other: shard } };
  });

function linkOut(path: string): void {
  const outside = join(mkdtempSync(join(tmpdir(), 'sida-outside-')), 'o');
  writeFileSync(outside, safetensors('{}'));
  symlinkSync(outside, path);
}

const more = (fields: object) => sharded((map) => ({ weight_map: { ...map, ...fields } }));
const manyTensors = () => Object.fromEntries(Array.from({ length: 3e6 }, (_, i) => [`t${i}`, 'a']));
const config = (change: object) => (directory: string) =>
  writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...TINY_CONFIG, ...change }));
const PLAIN = ['bad file name', 'expected a plain file name'];

// biome-ignore format: a table
export const DIRECTORIES: Case[] = [
  ['two shards and their index', sharded()],
  ['a shard beside the directory', elsewhere('../a.safetensors'), ...PLAIN],
  ['a shard by its absolute path', sharded((map) => ({ weight_map: { ...map, other: '/etc/passwd' } })), ...PLAIN],
  ['a shard by its address', elsewhere('https://x.y/a.safetensors'), ...PLAIN],
  ['a shard whose name has a NUL', elsewhere('a\0b'), ...PLAIN],
  ['a link out of the directory', elsewhere('out.safetensors', linkOut), 'link out of the directory', 'out.safetensors'],
  ['a link in a circle', elsewhere('circle.safetensors', (path) => symlinkSync('circle.safetensors', path)), 'cannot follow', 'circle.safetensors'],
  ['a directory in place of a shard', elsewhere('d.safetensors', (path) => void mkdirSync(path)), 'd.safetensors', 'a directory'],
  ['a FIFO in place of a shard', elsewhere('f.safetensors', (path) => void execFileSync('mkfifo', [path])), 'f.safetensors', 'regular file'],
  ['a missing shard', elsewhere('c.safetensors'), INDEX, 'missing shard', 'c.safetensors'],
  ['a tensor in two shards', sharded(undefined, [first]), INDEX, first, 'does not give it'],
  ['a shard that lacks a named tensor', more({ ghost: 'a.safetensors' }), INDEX, 'ghost', 'not in its shard'],
  ['an index of 260 MB', sharded(() => ({ more: 'x'.repeat(260e6) })), INDEX, 'at most 67108864 bytes', /found 26\d{7}/],
  ['an index of three million tensors', sharded((map) => ({ weight_map: { ...map, ...manyTensors() } })), INDEX, 'at most 41943040 bytes of values'],
  ['a config of 20 MB', config({ note: 'x'.repeat(20e6) }), 'config.json', 'at most 8388608 bytes', /found 20\d{6}/],
  ['no experts', config({ num_experts: 0 }), 'config.json', 'num_experts', 'found 0'],
  ['-1 experts', config({ num_experts: -1 }), 'config.json', 'num_experts', 'found -1'],
  ['a billion experts', config({ num_experts: 1e9 }), 'config.json', 'num_experts', 'found 1000000000'],
  ['another hidden size', config({ d_model: 8 }), 'shared.weight', '[10, 8]', '[10, 4]'],
  ['more layers than weights', config({ num_layers: 4 }), 'missing tensor', 'encoder.block.2'],
  ['more router rows than experts', config({ num_experts: 2 }), 'router', 'expected [2, 4]', 'found [3, 4]'],
];
