// Files of a model that are far too large, or hold far too much in few bytes.
import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { safetensors } from '../../support/tiny-checkpoint.js';
import type { CheckpointCase } from './case.js';

const WEIGHTS = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
const MIB = 1024 ** 2;

type Says = (string | RegExp)[];

/** A safetensors file whose header is `begin`, `unit` as often as it fits into `bytes`, and `end`. */
function header(
  what: string,
  begin: string,
  unit: string,
  end: string,
  says: Says,
  bytes = 99e6,
): CheckpointCase {
  return {
    item: 45,
    what: `a header with ${what}`,
    harm: (directory) =>
      writeFileSync(join(directory, WEIGHTS), safetensors(filled(begin, unit, end, bytes))),
    says: [WEIGHTS, ...says],
  };
}

/** Each `@` of the unit becomes a number of its own. */
function filled(begin: string, unit: string, end: string, bytes: number): Buffer {
  const text = Buffer.alloc(bytes, ' ');
  let at = text.write(begin);
  const room = bytes - end.length - unit.length - 16;
  for (let i = 0; at < room; i += 1) at += text.write(unit.replace('@', String(i)), at);
  text.write(end, at);
  return text;
}

/** The file `name` of the directory is `begin`, `unit` again and again, and `end`. `instead` is removed. */
function file(
  name: string,
  what: string,
  [begin, unit, end]: [string, string, string],
  bytes: number,
  says: Says,
  instead?: string,
): CheckpointCase {
  return {
    item: 45,
    what: `${name} with ${what}`,
    harm: (directory) => {
      if (instead !== undefined) rmSync(join(directory, instead));
      writeFileSync(join(directory, name), filled(begin, unit, end, bytes));
    },
    says: [name, ...says],
  };
}

/** The file has these many bytes, of which the file system stores none but the first. */
function sparse(name: string, bytes: number, instead?: string): CheckpointCase {
  return {
    item: 45,
    what: `${name} of ${bytes} bytes`,
    harm: (directory) => {
      if (instead !== undefined) rmSync(join(directory, instead));
      const fd = openSync(join(directory, name), 'w');
      writeSync(fd, '{');
      ftruncateSync(fd, bytes);
      closeSync(fd);
    },
    says: [name, /at most \d+/, String(bytes)],
  };
}

const NUMBER = '"dtype":"U8","shape":[0],"data_offsets":[0,0]';

/** JSON that any reader of settings must refuse by its bounds. `bytes` lie below the limit of such files. */
function settings(name: string, bytes = 7.9 * MIB): CheckpointCase[] {
  const size = Math.floor(bytes);
  return [
    file(name, 'a million keys', ['{"a":0', ',"k@":0', '}'], size, []),
    file(name, 'four million numbers', ['{"files":[0', ',0', '],"tasks":0,"heldOut":0}'], size, []),
    file(name, 'two million lists', ['{"files":[[]', ',[]', '],"tasks":[]}'], size, []),
    file(name, 'a million objects', ['{"files":[{}', ',{}', '],"tasks":[]}'], size, []),
    file(name, 'a million tasks and runs', ['{"tasks":{"a":0', ',"k@":{}', '}}'], size, []),
    file(name, 'one long text', ['{"format":"', 'xxxxxxxxxxxxxxxx', '"}'], size, []),
    file(name, 'a text of letters beyond latin', ['{"format":"', '\u20ac\u20ac\u20ac\u20ac', '"}'], size, []),
    file(name, 'many levels', ['{"a":', '[', '}'], size, []),
    sparse(name, 200_000_000),
    sparse(name, 1_000_000_000),
  ];
}

export const OVERSIZED_CHECKPOINTS: CheckpointCase[] = [
  header('one shape of 49 million dimensions', '{"a":{"dtype":"U8","shape":[1', ',1', ']}}', ['at most']),
  header('two million tensors', '{"a":{}', `,"t@":{${NUMBER}}`, '}', ['too many tensors', 'at most 262144']),
  header('50 million levels', '{"a":', '[', '', [/levels/]),
  header('one name of 99 MB', '{"', 'xxxxxxxxxxxxxxxx', '":{}}', [/at most/]),
  header('90 thousand names of a kilobyte', '{"a":0', `,"t@${'x'.repeat(1000)}":{${NUMBER}}`, '}', [
    /expected/,
  ]),
  header('names that take 90 MB together', '{', `"t@${'x'.repeat(900)}":{${NUMBER}},`, `"z":{${NUMBER}}}`, [
    'names and shapes too long',
  ]),
  header('names of 2,000 bytes', '{', `"t@${'x'.repeat(2000)}":{${NUMBER}},`, `"z":{${NUMBER}}}`, [
    'name too long',
    'at most 1024',
  ]),
  header('two million texts of metadata', '{"__metadata__":{"a":""', ',"k@":""', '}}', [/at most/]),
  header(
    'long shapes',
    '{',
    `"t@":{"dtype":"U8","shape":[0${',1'.repeat(63)}],"data_offsets":[0,0]},`,
    `"z":{${NUMBER}}}`,
    [/too many tensors|names and shapes too long/],
  ),
  header('many fields in one tensor', '{"a":{"x":0', ',"k@":0', '}}', [/at most/]),
  header('99 MB of blanks', '{', '        ', '', [/at most/]),
  sparse(INDEX, 260_000_000, WEIGHTS),
  file(INDEX, 'many tensors', ['{"weight_map":{"a":"s"', ',"t@":"s"', '}}'], 60 * MIB, ['at most'], WEIGHTS),
  file(INDEX, 'many shards', ['{"weight_map":{"a":"s"', ',"t@":"s@"', '}}'], 10 * MIB, [], WEIGHTS),
  file(
    INDEX,
    'many shards of their own',
    ['{"weight_map":{"a":"s"', ',"@":"t"', '}}'],
    10 * MIB,
    [],
    WEIGHTS,
  ),
  file(INDEX, 'many levels', ['{"weight_map":', '[', ''], 60 * MIB, ['levels'], WEIGHTS),
  file(INDEX, 'one long name', ['{"weight_map":{"', 'xxxxxxxx', '":"s"}}'], 60 * MIB, ['at most'], WEIGHTS),
  ...settings('config.json'),
  ...settings('generation_config.json'),
  ...settings('sida.json'),
  sparse('tokenizer.json', 1_000_000_000),
];

export const OVERSIZED_PACKS: CheckpointCase[] = [
  ...settings('manifest.json'),
  {
    item: 45,
    what: 'a manifest with a million files',
    harm: (directory) => {
      const path = join(directory, 'manifest.json');
      const manifest = JSON.parse(readFileSync(path, 'utf8'));
      writeFileSync(path, JSON.stringify({ ...manifest, files: Array.from({ length: 1e6 }, () => ({})) }));
    },
    says: ['manifest.json'],
  },
];

export const OVERSIZED_PREDICTORS: CheckpointCase[] = [
  ...settings('sida-predictor.json'),
  sparse('token.safetensors', 1_000_000_000),
].map((each) => (each.what.startsWith('token') ? { ...each, says: ['token.safetensors', 'header'] } : each));
