/** `sida bench`: runs the laboratory, which is part of a checkout and not of the package. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Command } from 'commander';
import { SidaError } from '../errors.js';

const LABORATORY = fileURLToPath(new URL('../../bench/', import.meta.url));

export function benchCommand(): Command {
  return new Command('bench')
    .argument('[args...]')
    .allowUnknownOption()
    .passThroughOptions()
    .helpOption(false)
    .action(runLaboratory);
}

/** The laboratory reads the command line and sets the exit code itself. */
async function runLaboratory(args: string[]): Promise<void> {
  const main = join(LABORATORY, 'dist', 'main.js');
  if (!existsSync(main)) throw new SidaError({ code: 'cannot_run', message: missing() });
  process.argv = [process.argv[0]!, main, ...args];
  await import(pathToFileURL(main).href);
}

function missing(): string {
  return existsSync(join(LABORATORY, 'src'))
    ? '`sida bench` needs a build of bench/: run `npm run build:bench`'
    : "The laboratory is not part of the package: clone sida's repository and run `npm ci`, then `npm run bench -- --help`";
}
