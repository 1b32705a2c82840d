// Files of a model that are no regular files of its directory: each is refused by name, and nothing waits for it.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Case } from './judge.js';

/** It kills itself, so that the socket stays. */
const LISTEN =
  "require('node:net').createServer().listen(process.argv[1], () => process.kill(process.pid, 9))";

// biome-ignore format: a table
const KINDS: [what: string, make: (path: string) => unknown, says: string | RegExp][] = [
  ['a link to /etc/shadow', (path) => symlinkSync('/etc/shadow', path), 'link out of'],
  ['a link to /dev/zero', (path) => symlinkSync('/dev/zero', path), 'link out of'],
  ['a link to the root', (path) => symlinkSync('/', path), 'link out of'],
  ['a link to itself', (path) => symlinkSync(path, path), 'cannot follow'],
  ['a FIFO', (path) => execFileSync('mkfifo', [path]), 'found a FIFO'],
  ['a directory', (path) => mkdirSync(path), 'found a directory'],
  ['a socket', (path) => spawnSync(process.execPath, ['-e', LISTEN, path]), /found (a socket|something else)/],
  ['a sparse file of a terabyte', (path) => { writeFileSync(path, ''); truncateSync(path, 1e12); }, /too large|header|size|at most/],
];

/** Each kind in place of each file. */
const unusual = (...names: string[]): Case[] =>
  names.flatMap((name) =>
    KINDS.map(
      ([what, make, says]): Case => [
        `${name} is ${what}`,
        (directory) => {
          rmSync(join(directory, name), { recursive: true, force: true });
          // It would be read instead.
          if (name.endsWith('.index.json')) rmSync(join(directory, 'model.safetensors'));
          make(join(directory, name));
        },
        // The addon names a file inside the directory that it was given.
        ...[...name.split('/'), says],
      ],
    ),
  );

export const UNUSUAL_IN_CHECKPOINT = unusual(
  ...['config.json', 'generation_config.json', 'tokenizer.json', 'sida.json', 'model.safetensors'],
  'model.safetensors.index.json',
);
export const UNUSUAL_IN_PACK = unusual(
  ...['manifest.json', 'config.json', 'tokenizer.json', 'dense.sida', 'experts.sida'],
);
export const UNUSUAL_IN_PREDICTOR = unusual(
  ...['sida-predictor.json', 'token.safetensors', 'attention/encoder/predictor.json'],
);
