// Items 40 and 41: what may be wrong with an index and its shards, and with a config that does not fit the weights.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { safetensors, TINY_CONFIG, tinyShapes, zeros } from '../../support/tiny-checkpoint.js';
import type { CheckpointCase } from './case.js';

const INDEX = 'model.safetensors.index.json';
const shapes = tinyShapes();
const names = Object.keys(shapes);
const half = names.length >> 1;
const bytesOf = (of: string[]) => zeros(Object.fromEntries(of.map((name) => [name, shapes[name]!])));

/** Splits the checkpoint into two shards; `change` has the last word on the index. */
const sharded =
  (change: (map: Record<string, string>, directory: string) => object | undefined) => (directory: string) => {
    rmSync(join(directory, 'model.safetensors'));
    const map: Record<string, string> = {};
    for (const [shard, of] of [
      ['a.safetensors', names.slice(0, half)],
      ['b.safetensors', names.slice(half)],
    ] as const) {
      const { header, data } = bytesOf(of);
      writeFileSync(join(directory, shard), safetensors(header, data));
      for (const name of of) map[name] = shard;
    }
    const index = change(map, directory) ?? { metadata: {}, weight_map: map };
    writeFileSync(join(directory, INDEX), JSON.stringify(index));
  };

/** The index names another file too. */
const elsewhere = (shard: string, make?: (directory: string) => void) =>
  sharded((map, directory) => {
    make?.(directory);
    map.other = shard;
    return undefined;
  });

const linked = (name: string, to: string) => (directory: string) => symlinkSync(to, join(directory, name));

const config = (change: object) => (directory: string) =>
  writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...TINY_CONFIG, ...change }));

export const DIRECTORY_CASES: CheckpointCase[] = [
  { item: 40, what: 'two shards and their index', harm: sharded(() => undefined) },
  ...['../a.safetensors', '/etc/passwd', 'https://x.y/a.safetensors', 'a\0b'].map((shard) => ({
    item: 40,
    what: `a shard named ${JSON.stringify(shard)}`,
    harm: elsewhere(shard),
    says: ['bad file name', 'expected a plain file name'],
  })),
  {
    item: 40,
    what: 'a link out of the directory',
    harm: elsewhere('out.safetensors', (directory) => {
      const outside = mkdtempSync(join(tmpdir(), 'sida-outside-'));
      writeFileSync(join(outside, 'o'), safetensors('{}'));
      linked('out.safetensors', join(outside, 'o'))(directory);
    }),
    says: ['link out of the directory', 'out.safetensors'],
  },
  {
    item: 40,
    what: 'a link in a circle',
    harm: elsewhere('circle.safetensors', linked('circle.safetensors', 'circle.safetensors')),
    says: ['cannot follow', 'circle.safetensors'],
  },
  {
    item: 40,
    what: 'a directory in place of a shard',
    harm: elsewhere('d.safetensors', (directory) => mkdirSync(join(directory, 'd.safetensors'))),
    says: ['d.safetensors', 'a directory'],
  },
  {
    item: 40,
    what: 'a FIFO in place of a shard',
    harm: elsewhere('f.safetensors', (directory) => {
      execFileSync('mkfifo', [join(directory, 'f.safetensors')]);
    }),
    says: ['f.safetensors', 'regular file'],
  },
  {
    item: 40,
    what: 'a missing shard',
    harm: elsewhere('c.safetensors'),
    says: [INDEX, 'missing shard', 'c.safetensors'],
  },
  {
    item: 40,
    what: 'a tensor in two shards',
    harm: sharded((map, directory) => {
      const { header, data } = bytesOf([names[0]!, ...names.slice(half)]);
      writeFileSync(join(directory, 'b.safetensors'), safetensors(header, data));
      return { weight_map: map };
    }),
    says: [INDEX, names[0]!, 'does not give it'],
  },
  {
    item: 40,
    what: 'a shard that lacks a named tensor',
    harm: sharded((map) => ({ weight_map: { ...map, ghost: 'a.safetensors' } })),
    says: [INDEX, 'ghost', 'not in its shard'],
  },
  {
    item: 40,
    what: 'a total size that lies',
    harm: sharded((map) => ({ metadata: { total_size: 7 }, weight_map: map })),
    says: [INDEX, 'total_size', 'found 7'],
  },
  {
    item: 40,
    what: 'an index of 260 MB',
    harm: sharded((map) => ({ weight_map: map, more: 'x'.repeat(260e6) })),
    says: [INDEX, 'at most 67108864 bytes', /found 26\d{7}/],
  },
  {
    item: 40,
    what: 'an index of three million tensors',
    harm: sharded((map) => ({
      weight_map: { ...map, ...Object.fromEntries(Array.from({ length: 3e6 }, (_, i) => [`t${i}`, 'a'])) },
    })),
    says: [INDEX, 'at most 41943040 bytes of values'],
  },
  {
    item: 41,
    what: 'a config of 20 MB',
    harm: config({ note: 'x'.repeat(20e6) }),
    says: ['config.json', 'at most 8388608 bytes', /found 20\d{6}/],
  },
  ...[0, -1, 1e9].map((num_experts) => ({
    item: 41,
    what: `${num_experts} experts`,
    harm: config({ num_experts }),
    says: ['config.json', 'num_experts', `found ${num_experts}`],
  })),
  {
    item: 41,
    what: 'another hidden size',
    harm: config({ d_model: 8 }),
    says: ['shared.weight', '[10, 8]', '[10, 4]'],
  },
  {
    item: 41,
    what: 'more layers than weights',
    harm: config({ num_layers: 4 }),
    says: ['missing tensor', 'encoder.block.2'],
  },
  {
    item: 41,
    what: 'more router rows than experts',
    harm: config({ num_experts: 2 }),
    says: ['router', 'expected [2, 4]', 'found [3, 4]'],
  },
];
