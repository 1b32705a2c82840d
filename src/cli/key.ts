/** `sida key new`: makes a client's key and the line of the key file that admits it. */

import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { hashKey, newApiKey } from '../access/api-key.js';
import { keyLine, type NamedKey, nameFault, parseKeyFile, parseScopes } from '../access/key-file.js';
import { SCOPES } from '../access/scopes.js';
import { UsageError } from '../config/resolve.js';
import { makeDirectory } from '../files/make-directory.js';
import { readOpenPrivateFile } from '../files/private-file.js';
import { printJson, printLines } from '../text/print.js';

export function keyCommand(): Command {
  return new Command('key')
    .addHelpText('after', '\nExample:\n  sida key new --name ci --file keys')
    .addCommand(newCommand());
}

function newCommand(): Command {
  return new Command('new')
    .description(
      'Make a key. It is printed once, with the line for the file of --api-keys, which holds only its hash',
    )
    .requiredOption('--name <name>', 'name of its user; rate limits and jobs belong to this name')
    .option('--scopes <list>', `what the key may do, separated by commas: ${SCOPES.join(', ')}`, 'infer')
    .option('--file <file>', 'append the line to this file, which is created for its owner alone')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida key new --name ci --file keys\n  sida key new --name grafana --scopes metrics --json',
    )
    .action((values: { name: string; scopes: string; file?: string; json?: boolean }) => {
      const wrong = nameFault(values.name);
      if (wrong !== undefined) throw new UsageError(`The "--name" option is wrong: ${wrong}`);
      const scopes = parseScopes(values.scopes);
      if (scopes === undefined) {
        throw new UsageError(
          `Expected the "--scopes" option to be out of ${SCOPES.join(', ')}, separated by commas, but got ${JSON.stringify(values.scopes)}`,
        );
      }
      const key = newApiKey();
      const named = { name: values.name, scopes, hash: hashKey(key) };
      const line = keyLine(named);
      if (values.file !== undefined) appendLine(values.file, named);
      if (values.json === true) printJson({ name: values.name, scopes, key, line });
      else
        printLines(
          'The key, shown this once:',
          `  ${key}`,
          `The line ${values.file === undefined ? 'for' : 'added to'} the file of --api-keys:`,
          `  ${line}`,
        );
    });
}

/**
 * Creates the file, and its directory, for the owner alone. Refuses a file that others may read, and a line that would
 * make a file which no server takes.
 */
function appendLine(file: string, key: NamedKey): void {
  makeDirectory(dirname(file), 0o700);
  const fd = openToAppend(file);
  try {
    const before = readOpenPrivateFile(fd, file);
    const separator = before === '' || before.endsWith('\n') ? '' : '\n';
    const line = `${separator}${keyLine(key)}\n`;
    try {
      parseKeyFile(before + line);
    } catch (error) {
      throw new UsageError(`${file}: cannot add ${key.name}: ${(error as Error).message}`);
    }
    writeSync(fd, line);
  } finally {
    closeSync(fd);
  }
}

function openToAppend(file: string): number {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
  try {
    return openSync(file, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ELOOP') throw error;
    throw new UsageError(`${file}: expected a regular file, found a symbolic link`);
  }
}
