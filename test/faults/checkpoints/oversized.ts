// Files of a model that are far too large, or hold far too much in few bytes.
import { closeSync, ftruncateSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { safetensors } from '../../support/tiny-checkpoint.js';
import { MIB } from '../subject.js';
import type { Case } from './judge.js';

const WEIGHTS = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';

/** `begin`, `unit` as often as it fits into `bytes`, and `end`. Each `@` of the unit becomes a number of its own. */
type Filling = [begin: string, unit: string, end: string];

function filled([begin, unit, end]: Filling, bytes: number): Buffer {
  const text = Buffer.alloc(bytes, ' ');
  let at = text.write(begin);
  const room = bytes - end.length - unit.length - 16;
  for (let i = 0; at < room; i += 1) at += text.write(unit.replace('@', String(i)), at);
  text.write(end, at);
  return text;
}

/** The weights have a header of 99 MB. */
const header = (what: string, filling: Filling, ...says: (string | RegExp)[]): Case => [
  `a header with ${what}`,
  (directory) => writeFileSync(join(directory, WEIGHTS), safetensors(filled(filling, 99e6))),
  ...[WEIGHTS, ...says],
];

/** The file `name` of the directory is so filled. The index stands in the place of the weights. */
const file = (name: string, what: string, filling: Filling, bytes: number, ...says: string[]): Case => [
  `${name} with ${what}`,
  (directory) => {
    if (name === INDEX) rmSync(join(directory, WEIGHTS));
    writeFileSync(join(directory, name), filled(filling, bytes));
  },
  ...[name, ...says],
];

/** The file has these many bytes, of which the file system stores none but the first. */
const sparse = (name: string, bytes: number, ...says: (string | RegExp)[]): Case => [
  `${name} of ${bytes} bytes`,
  (directory) => {
    if (name === INDEX) rmSync(join(directory, WEIGHTS));
    const fd = openSync(join(directory, name), 'w');
    writeSync(fd, '{');
    ftruncateSync(fd, bytes);
    closeSync(fd);
  },
  ...[name, ...(says.length > 0 ? says : [/at most \d+/, new RegExp(`found (${bytes}|\\d[\\d.]* [MG]iB)`)])],
];

// biome-ignore format: a table
const SETTINGS: [what: string, filling: Filling][] = [
  ['a million keys', ['{"a":0', ',"k@":0', '}']],
  ['four million numbers', ['{"files":[0', ',0', '],"tasks":0,"heldOut":0}']],
  ['two million lists', ['{"files":[[]', ',[]', '],"tasks":[]}']],
  ['a million objects', ['{"files":[{}', ',{}', '],"tasks":[]}']],
  ['a million tasks and runs', ['{"tasks":{"a":0', ',"k@":{}', '}}']],
  ['one long text', ['{"format":"', 'xxxxxxxxxxxxxxxx', '"}']],
  ['a text of letters beyond latin', ['{"format":"', '\u20ac\u20ac\u20ac\u20ac', '"}']],
  ['many levels', ['{"a":', '[', '}']],
];

/** JSON that any reader of settings must refuse by its bounds: below the limit of bytes of such files, and above. */
const settings = (name: string): Case[] => [
  ...SETTINGS.map(([what, filling]) => file(name, what, filling, Math.floor(7.9 * MIB))),
  ...[200_000_000, 1_000_000_000].map((bytes) => sparse(name, bytes)),
];

const NONE = '"dtype":"U8","shape":[0],"data_offsets":[0,0]';
const LONG = `"dtype":"U8","shape":[0${',1'.repeat(63)}],"data_offsets":[0,0]`;
const LAST = `"z":{${NONE}}}`;
const x = (count: number) => 'x'.repeat(count);

// biome-ignore format: a table
export const OVERSIZED_CHECKPOINTS: Case[] = [
  header('one shape of 49 million dimensions', ['{"a":{"dtype":"U8","shape":[1', ',1', ']}}'], 'at most'),
  header('two million tensors', ['{"a":{}', `,"t@":{${NONE}}`, '}'], 'too many tensors', 'at most 262144'),
  header('50 million levels', ['{"a":', '[', ''], 'levels'),
  header('one name of 99 MB', ['{"', x(16), '":{}}'], 'at most'),
  header('90 thousand names of a kilobyte', ['{"a":0', `,"t@${x(1000)}":{${NONE}}`, '}'], 'expected'),
  header('names that take 90 MB together', ['{', `"t@${x(900)}":{${NONE}},`, LAST], 'names and shapes too long'),
  header('names of 2,000 bytes', ['{', `"t@${x(2000)}":{${NONE}},`, LAST], 'name too long', 'at most 1024'),
  header('two million texts of metadata', ['{"__metadata__":{"a":""', ',"k@":""', '}}'], 'at most'),
  header('long shapes', ['{', `"t@":{${LONG}},`, LAST], /too many tensors|names and shapes too long/),
  header('many fields in one tensor', ['{"a":{"x":0', ',"k@":0', '}}'], 'at most'),
  header('99 MB of blanks', ['{', '        ', ''], 'at most'),
  file(INDEX, 'many tensors', ['{"weight_map":{"a":"s"', ',"t@":"s"', '}}'], 60 * MIB, 'at most'),
  file(INDEX, 'many shards', ['{"weight_map":{"a":"s"', ',"t@":"s@"', '}}'], 10 * MIB),
  file(INDEX, 'many shards of their own', ['{"weight_map":{"a":"s"', ',"@":"t"', '}}'], 10 * MIB),
  file(INDEX, 'many levels', ['{"weight_map":', '[', ''], 60 * MIB, 'levels'),
  file(INDEX, 'one long name', ['{"weight_map":{"', x(8), '":"s"}}'], 60 * MIB, 'at most'),
  sparse(INDEX, 260_000_000),
  ...['config.json', 'generation_config.json', 'sida.json'].flatMap(settings),
  sparse('tokenizer.json', 1_000_000_000),
];

export const OVERSIZED_PACKS: Case[] = settings('manifest.json');

export const OVERSIZED_PREDICTORS: Case[] = [
  ...settings('sida-predictor.json'),
  sparse('token.safetensors', 1_000_000_000, 'header'),
];
