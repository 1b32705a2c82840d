/** `sida ps`: which models a running server has loaded, and what memory they hold. */
import { Command } from 'commander';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { baseOf, getJson } from './server-calls.js';
import { tableLines } from './table.js';

/** The parts of the answers that this command shows. */
interface Listed {
  id: string;
  state: string;
  context_tokens?: number;
}

interface Held {
  device: {
    budget_bytes: number;
    used_bytes: number;
    experts: { slot_bytes: number; resident_bytes: number };
  };
}

export function psCommand(): Command {
  return new Command('ps')
    .option('--url <url>', 'the server; SIDA_API_KEY holds its key', 'http://127.0.0.1:8080')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  sida ps\n  sida ps --url http://10.0.0.5:8080 --json')
    .action(async ({ url, json }: { url: string; json?: boolean }) => {
      const base = baseOf(url);
      const { data } = await getJson<{ data: Listed[] }>(`${base}/v1/models`);
      const models = await Promise.all(
        data.map(async (model) => ({ ...model, held: await heldBy(base, model) })),
      );
      if (json === true)
        return printJson({ models: models.map(({ id, state, held }) => ({ id, state, ...held })) });
      const rows = models.map(({ id, state, context_tokens: context, held }) => [
        id,
        state,
        ...(held === undefined
          ? ['–', '–', '–']
          : [
              formatBytes(held.device.used_bytes),
              formatBytes(held.device.budget_bytes),
              formatBytes(held.device.experts.resident_bytes),
            ]),
        context === undefined ? '–' : String(context),
      ]);
      printLines(
        ...tableLines('llrrrr', [['model', 'state', 'used', 'budget', 'experts', 'context'], ...rows]),
      );
    });
}

/** A model that is not loaded holds nothing. */
async function heldBy(base: string, { id, state }: Listed): Promise<Held | undefined> {
  if (state !== 'ready') return undefined;
  return getJson<Held>(`${base}/admin/budget?model=${encodeURIComponent(id)}`);
}
