/** `sida packs`: shows the packs that were made on first use, and removes those that serve nothing any more. */
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { type CachedPack, cachedPacks, freedBytes } from '../checkpoint/cached-packs.js';
import { FileHashes } from '../checkpoint/file-hashes.js';
import { removePack } from '../checkpoint/remove-pack.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { causeOf } from '../text/system-error.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { Progress } from './progress.js';
import { tableLines } from './table.js';

const OPTIONS = ['packDir'] as const;
const HOUR_MS = 3_600_000;
/** An unfinished conversion that nobody has written to for this long is abandoned. */
const ABANDONED_MS = 24 * HOUR_MS;

export function packsCommand(): Command {
  return new Command('packs')
    .addHelpText('after', '\nExample:\n  sida packs prune --older-than 30d --yes')
    .addCommand(listCommand())
    .addCommand(pruneCommand());
}

function listCommand(): Command {
  const command = new Command('list')
    .description(
      'List packs with their size, last use, and whether their checkpoint is still there and the same',
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida packs list\n  sida packs list --pack-dir /var/cache/sida --json',
    )
    .action(async (values: Record<string, unknown>) => {
      const { packDir, packs } = await packsOf(values);
      if (values.json === true) return printJson({ directory: packDir, packs });
      if (packs.length === 0) printLines(`${packDir} holds no packs`);
      else printLines(packDir, ...tableOf(packs));
    });
  return addFlags(command, OPTIONS);
}

interface Pruned {
  directory: string;
  /** Packs that are removed, or would be with --yes. */
  packs: (CachedPack & { reason: string })[];
  /** Packs that would be removed if no process held them. */
  inUse: string[];
  /** Packs that could not be removed, with the reason. */
  failed: string[];
  freedBytes: number;
  removed: boolean;
}

function pruneCommand(): Command {
  const command = new Command('prune')
    .description(
      'Remove packs whose checkpoint is gone or has changed, and conversions abandoned for a day. Shows them; removes them only with --yes',
    )
    .option('--older-than <age>', 'also other packs that were last used longer ago, such as 30d or 12h')
    .option('--yes', 'remove them')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nA pack that a running process uses stays, and so does everything that is no pack. A pack of another version, or\n' +
        'whose checkpoint cannot be read now, goes only with --older-than. A pack that is removed is made again when it is\n' +
        'needed.\n' +
        '\nExamples:\n  sida packs prune\n  sida packs prune --older-than 30d --yes',
    )
    .action(prune);
  return addFlags(command, OPTIONS);
}

async function prune(values: Record<string, unknown>): Promise<void> {
  const olderMs = values.olderThan === undefined ? undefined : ageOf(String(values.olderThan));
  const { packDir, packs, hashes } = await packsOf(values);
  const now = Date.now();
  const useless = packs.flatMap((pack) => {
    const reason = reasonToRemove(pack, now, olderMs);
    return reason === undefined ? [] : [{ ...pack, reason }];
  });
  const inUse = useless.filter((pack) => pack.inUse).map(({ pack }) => pack);
  const free = useless.filter((pack) => !pack.inUse);
  const pruned: Pruned = {
    directory: packDir,
    packs: free,
    inUse,
    failed: [],
    freedBytes: freedBytes(packDir, free),
    removed: values.yes === true,
  };
  if (values.yes === true) {
    for (const cached of free) {
      const { pack } = cached;
      try {
        if (await removePack(packDir, cached, hashes)) continue;
        // A process has opened it meanwhile.
        inUse.push(pack);
      } catch (error) {
        pruned.failed.push(`${pack}: ${causeOf(error)}`);
      }
      pruned.packs = pruned.packs.filter((each) => each.pack !== pack);
    }
    await hashes.save();
  }
  if (values.json === true) printJson(pruned);
  else printLines(...describe(pruned));
  if (values.yes === true && inUse.length + pruned.failed.length > 0) process.exitCode = EXIT.failure;
}

/** Why a pack serves nothing any more. Undefined for one that stays. */
function reasonToRemove(
  { state, changed, usedMs, madeMs }: Pick<CachedPack, 'state' | 'changed' | 'usedMs' | 'madeMs'>,
  now: number,
  olderMs?: number,
): string | undefined {
  const idleMs = now - (usedMs ?? madeMs);
  if (state === 'gone') return 'its checkpoint is gone';
  if (state === 'changed') return `its checkpoint has changed: ${changed.join(', ')}`;
  if (state === 'no_pack') return undefined;
  if (state === 'removed') return 'a removal that was interrupted';
  if (state === 'unfinished') return idleMs > ABANDONED_MS ? 'an abandoned conversion' : undefined;
  return olderMs !== undefined && idleMs > olderMs ? `last used ${age(idleMs)} ago` : undefined;
}

async function packsOf(values: Record<string, unknown>) {
  const { packDir } = resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env });
  const hashes = FileHashes.open(packDir);
  const progress = new Progress();
  try {
    const onProgress = progress.show.bind(progress);
    const packs = existsSync(packDir) ? await cachedPacks(packDir, { hashes, onProgress }) : [];
    await hashes.save();
    return { packDir, packs, hashes };
  } finally {
    progress.stop();
  }
}

function describe({ directory, packs, inUse, failed, freedBytes: freed, removed }: Pruned): string[] {
  const lines = [];
  if (packs.length === 0) lines.push(`Nothing to remove in ${directory}`);
  else {
    lines.push(
      ...tableLines(
        'lrl',
        packs.map(({ pack, bytes, reason }) => [pack, formatBytes(bytes), reason]),
      ),
    );
    const count = `${packs.length} ${packs.length === 1 ? 'pack' : 'packs'}`;
    lines.push(
      removed
        ? `Removed ${count}, ${formatBytes(freed)} are free`
        : `Would remove ${count} and free ${formatBytes(freed)}; run again with --yes`,
    );
  }
  for (const pack of inUse) lines.push(`${pack} stays: a running process uses it`);
  for (const fault of failed) lines.push(`Cannot remove ${fault}`);
  return lines;
}

function tableOf(packs: readonly CachedPack[]): string[] {
  const now = Date.now();
  const head = ['pack', 'model', 'experts', 'dense', 'size', 'made', 'last used', 'checkpoint'];
  const rows = packs.map((pack) => [
    pack.pack,
    pack.model ?? '–',
    pack.experts ?? '–',
    pack.dense ?? '–',
    formatBytes(pack.bytes),
    `${age(now - pack.madeMs)} ago`,
    pack.inUse ? 'now' : pack.usedMs === null ? 'never' : `${age(now - pack.usedMs)} ago`,
    stateOf(pack),
  ]);
  return tableLines('llllrrrl', [head, ...rows]);
}

function stateOf({ state, changed, source, fault }: CachedPack): string {
  if (state === 'current') return `${source}`;
  if (state === 'gone') return `gone: ${source}`;
  if (state === 'changed') return `changed (${changed.join(', ')}): ${source}`;
  const words = state === 'no_pack' ? 'no pack' : state;
  return fault === null ? words : `${words}: ${fault}`;
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
