/** `sida models` and `sida rm`: show and remove the models in the cache of Hugging Face's tools. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import { z } from 'zod';
import { UsageError } from '../config/resolve.js';
import { SidaError } from '../errors.js';
import {
  type CachedModel,
  cacheDirectory,
  cachedBytes,
  cachedModel,
  cachedModels,
  removeModel,
  removeRepo,
} from '../hub/cache.js';
import { writtenName } from '../hub/hub-name.js';
import { loadAddon } from '../native/addon.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { requireHubName } from './pull.js';
import { tableLines } from './table.js';

const familySchema = z.object({ model_type: z.string() });

export function modelsCommand(): Command {
  return new Command('models')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  sida models\n  sida models --json')
    .action((values: Record<string, unknown>) => {
      const directory = cacheDirectory();
      const models = cachedModels().map((model) => ({
        name: model.name,
        format: model.format,
        bytes: model.bytes,
        family: familyOf(model),
        modified: model.modified.toISOString(),
        path: model.path,
      }));
      if (values.json === true) return printJson({ directory, models });
      if (models.length === 0) return printLines(`${directory} holds no models`);
      const rows = models.map(({ name, format, bytes, family, modified }) => [
        name,
        format,
        formatBytes(bytes),
        family ?? '–',
        modified.slice(0, 16).replace('T', ' '),
      ]);
      printLines(
        directory,
        ...tableLines('llrll', [['name', 'format', 'size', 'family', 'downloaded (UTC)'], ...rows]),
      );
    });
}

export function rmCommand(): Command {
  return new Command('rm')
    .argument(
      '<name>',
      'as `sida models` lists it; without a colon, all of the repository, unfinished downloads too',
    )
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      '\nExamples:\n  sida rm Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M\n  sida rm allenai/OLMoE-1B-7B-0924 --yes',
    )
    .action(async (text: string, values: Record<string, unknown>) => {
      const name = requireHubName(text);
      const model = name.choice === undefined ? undefined : cachedModel(name);
      const bytes = name.choice === undefined ? cachedBytes(name.repo) : model?.bytes;
      if (bytes === undefined) {
        const message = `${writtenName(name)} is not in ${cacheDirectory()}`;
        throw new SidaError({ code: 'model_not_found', message });
      }
      if (values.yes !== true && !(await agrees(`Remove ${writtenName(name)}, ${formatBytes(bytes)}?`)))
        return;
      await (model === undefined ? removeRepo(name.repo) : removeModel(name.repo, model));
      printLines(`Removed ${writtenName(name)}, ${formatBytes(bytes)} are free`);
    });
}

async function agrees(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) throw new UsageError('There is no terminal to ask on; run again with --yes');
  const asked = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await asked.question(`${question} [y/N] `)).trim());
  } finally {
    asked.close();
  }
}

/** Null for a file that cannot be read. */
function familyOf({ format, path }: CachedModel): string | null {
  try {
    const config =
      format === 'gguf' ? loadAddon().readGguf(path).config : readFileSync(join(path, 'config.json'), 'utf8');
    return familySchema.parse(JSON.parse(config)).model_type;
  } catch {
    return null;
  }
}
