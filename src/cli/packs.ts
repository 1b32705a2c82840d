/** `sida packs`: shows the packs that were made on first use, and removes those that nobody uses any more. */
import { Command } from 'commander';
import { type CachedPack, cachedPacks, removePack } from '../checkpoint/cached-packs.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { tableLines } from './table.js';

const OPTIONS = ['packDir'] as const;
const HOUR_MS = 3_600_000;

export function packsCommand(): Command {
  return new Command('packs')
    .addHelpText('after', '\nExample:\n  sida packs prune --older-than 30d --yes')
    .addCommand(listCommand())
    .addCommand(pruneCommand());
}

function listCommand(): Command {
  const command = new Command('list')
    .description('List packs with their size, last use and checkpoint')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida packs list\n  sida packs list --pack-dir /var/cache/sida --json',
    )
    .action((values: Record<string, unknown>) => {
      const directory = packDirOf(values);
      const packs = cachedPacks(directory);
      if (values.json === true) return printJson({ directory, packs });
      if (packs.length === 0) printLines(`${directory} holds no packs`);
      else printLines(directory, ...tableOf(packs));
    });
  return addFlags(command, OPTIONS);
}

function pruneCommand(): Command {
  const command = new Command('prune')
    .description('Remove packs that were last used long ago. Shows them; removes them only with --yes')
    .option('--older-than <age>', 'how long ago, such as 30d or 12h', '30d')
    .option('--yes', 'remove them')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nA pack that a running process uses stays. A pack that is removed is made again when it is needed.\n' +
        '\nExamples:\n  sida packs prune\n  sida packs prune --older-than 12h --yes',
    )
    .action(prune);
  return addFlags(command, OPTIONS);
}

async function prune(values: Record<string, unknown>): Promise<void> {
  const oldest = Date.now() - ageOf(String(values.olderThan));
  const directory = packDirOf(values);
  const removes = values.yes === true;
  const old = cachedPacks(directory).filter(({ kind, usedMs }) => kind === 'removed' || usedMs < oldest);
  const inUse = old.filter((pack) => pack.inUse).map(({ pack }) => pack);
  const packs: CachedPack[] = [];
  for (const pack of old.filter((each) => !each.inUse)) {
    // A process may have opened it meanwhile.
    if (!removes || (await removePack(directory, pack))) packs.push(pack);
    else inUse.push(pack.pack);
  }
  if (values.json === true) printJson({ directory, packs, inUse, removed: removes });
  else printLines(...describe(directory, packs, inUse, removes));
  if (removes && inUse.length > 0) process.exitCode = EXIT.failure;
}

function packDirOf(values: Record<string, unknown>): string {
  return resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env }).packDir;
}

function describe(directory: string, packs: CachedPack[], inUse: string[], removed: boolean): string[] {
  const stay = inUse.map((pack) => `${pack} stays: a running process uses it`);
  if (packs.length === 0) return [`Nothing to remove in ${directory}`, ...stay];
  const bytes = formatBytes(packs.reduce((sum, { ownBytes }) => sum + ownBytes, 0));
  const count = `${packs.length} ${packs.length === 1 ? 'pack' : 'packs'}`;
  const said = removed
    ? `Removed ${count}, ${bytes} are free`
    : `Would remove ${count} and free ${bytes}; run again with --yes`;
  return [...tableOf(packs), said, ...stay];
}

function tableOf(packs: readonly CachedPack[]): string[] {
  const now = Date.now();
  const rows = packs.map(({ pack, kind, bytes, usedMs, source, inUse }) => [
    pack,
    formatBytes(bytes),
    inUse ? 'now' : `${age(now - usedMs)} ago`,
    kind === 'pack' ? (source ?? '–') : kind,
  ]);
  return tableLines('lrrl', [['pack', 'size', 'last used', 'checkpoint'], ...rows]);
}

function age(ms: number): string {
  const hours = Math.max(0, ms) / HOUR_MS;
  if (hours < 1) return `${Math.floor(hours * 60)} min`;
  return hours < 48 ? `${Math.floor(hours)} h` : `${Math.floor(hours / 24)} d`;
}

function ageOf(text: string): number {
  const match = /^(\d{1,5})([hd])$/.exec(text);
  if (match !== null) return Number(match[1]) * HOUR_MS * (match[2] === 'd' ? 24 : 1);
  throw new UsageError(
    `Expected the "--older-than" option to be days or hours, such as 30d or 12h, but got ${JSON.stringify(text)}`,
  );
}
