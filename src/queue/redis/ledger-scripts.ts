/**
 * The ledger's scripts. Each `.lua` file is one atomic step of a job's life; the comment at its head lists the
 * arguments and results.
 */
import { readFileSync } from 'node:fs';

const NAMES = [
  'accept',
  'append',
  'beat',
  'claim',
  'crash',
  'finish',
  'hand-back',
  'read',
  'status',
  'stop',
  'take',
] as const;

export type LedgerScript = `ledger-${(typeof NAMES)[number]}`;

/** The shared beginning of every script. */
const SHARED = textOf('ledger');

/** The scripts in the form in which ioredis defines commands. */
export const LEDGER_SCRIPTS = Object.fromEntries(
  NAMES.map((name) => [`ledger-${name}`, { numberOfKeys: 1, lua: `${SHARED}\n${textOf(name)}` }]),
) as Record<LedgerScript, { numberOfKeys: number; lua: string }>;

function textOf(name: string): string {
  return readFileSync(new URL(`${name}.lua`, import.meta.url), 'utf8');
}
