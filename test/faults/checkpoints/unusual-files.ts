// Files of a model that are no regular files of its directory: each is refused by name, and nothing waits for it.
import { execFileSync } from 'node:child_process';
import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { CheckpointCase } from './case.js';

interface Kind {
  what: string;
  make: (path: string) => void;
  says: string | RegExp;
}

const LISTEN =
  "require('node:net').createServer().listen(process.argv[1], () => process.kill(process.pid, 9))";

const KINDS: Kind[] = [
  { what: 'a link to /etc/shadow', make: (path) => symlinkSync('/etc/shadow', path), says: 'link out of' },
  { what: 'a link to /dev/zero', make: (path) => symlinkSync('/dev/zero', path), says: 'link out of' },
  { what: 'a link to the root', make: (path) => symlinkSync('/', path), says: 'link out of' },
  { what: 'a link to itself', make: (path) => symlinkSync(path, path), says: 'cannot follow' },
  { what: 'a FIFO', make: (path) => void execFileSync('mkfifo', [path]), says: 'found a FIFO' },
  { what: 'a directory', make: (path) => void mkdirSync(path), says: 'found a directory' },
  {
    what: 'a socket',
    make: (path) => {
      try {
        execFileSync(process.execPath, ['-e', LISTEN, path], { stdio: 'ignore' });
      } catch {
        // It kills itself, so that the socket stays.
      }
    },
    says: /found (a socket|something else)/,
  },
  {
    what: 'a sparse file of a terabyte',
    make: (path) => {
      const file = openSync(path, 'w');
      ftruncateSync(file, 1e12);
      closeSync(file);
    },
    says: /too large|header|size|at most/,
  },
];

/** Each kind in place of each file. `without` are files that would be read instead. */
function unusual(names: readonly string[], ...without: readonly string[]): CheckpointCase[] {
  return names.flatMap((name) =>
    KINDS.map(({ what, make, says }) => ({
      item: 44,
      what: `${name} is ${what}`,
      harm: (directory: string) => {
        for (const file of [name, ...without])
          rmSync(join(directory, file), { recursive: true, force: true });
        make(join(directory, name));
      },
      // The addon names a file inside the directory that it was given.
      says: [...name.split('/'), says],
    })),
  );
}

export const UNUSUAL_IN_CHECKPOINT: CheckpointCase[] = [
  ...unusual(['config.json', 'generation_config.json', 'tokenizer.json', 'sida.json', 'model.safetensors']),
  ...unusual(['model.safetensors.index.json'], 'model.safetensors'),
];

export const UNUSUAL_IN_PACK: CheckpointCase[] = unusual([
  ...['manifest.json', 'config.json', 'tokenizer.json', 'dense.sida', 'experts.sida'],
]);

export const UNUSUAL_IN_PREDICTOR: CheckpointCase[] = [
  ...unusual(['sida-predictor.json', 'token.safetensors']),
  ...unusual(['attention/encoder/predictor.json']),
];
