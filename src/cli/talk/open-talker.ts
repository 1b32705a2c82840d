/** Flags that `ask` and `chat` share, and the talker that they choose. */
import type { Command } from 'commander';
import { ENGINE_OPTION_NAMES } from '../../config/engine-config.js';
import { UsageError } from '../../config/resolve.js';
import { addFlags, givenFlags } from '../flags.js';
import { localModel } from '../hub-models.js';
import { addSettings, type Settings, settingsOf } from './settings.js';
import type { Talker } from './talker.js';

export interface Talk {
  talker: Talker;
  settings: Settings;
  system: string | undefined;
}

export function talkFlags(command: Command): Command {
  addSettings(command.option('--system <text>', 'what the model is told first')).option(
    '--url <url>',
    'ask a running server, and load no model; SIDA_API_KEY holds its key',
  );
  const options = ENGINE_OPTION_NAMES.filter((name) => name !== 'model');
  return addFlags(command, options, { shown: ['memoryBudget'] });
}

/** Throws UsageError when there is neither a model nor a server. */
export function requireModel(model: string | undefined, { url }: Record<string, unknown>): void {
  if (model !== undefined || url !== undefined) return;
  throw new UsageError('The model is missing: name a checkpoint or a GGUF file, or a server with --url');
}

/** `model` is a path, or with --url the name of a served model. Rejects with UsageError before a model is loaded. */
export async function openTalker(model: string | undefined, values: Record<string, unknown>): Promise<Talk> {
  const { settings, rest } = settingsOf(values);
  const { system, url, ...flags } = rest as { system?: string; url?: string } & Record<string, unknown>;
  const given = givenFlags(flags);
  const about = { settings, system };
  if (url !== undefined) {
    const [foreign] = Object.keys(given);
    if (foreign !== undefined) {
      throw new UsageError(
        `The "--url" option leaves the model to a server, and its engine has its own options: leave out ${foreign}`,
      );
    }
    const { ServerTalker } = await import('./server-talker.js');
    return { ...about, talker: await ServerTalker.open(url, model) };
  }
  const { LocalTalker } = await import('./local-talker.js');
  return { ...about, talker: await LocalTalker.open(await localModel(model!), given) };
}
