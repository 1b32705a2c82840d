/**
 * The ledger's scripts: each `.lua` file here is one atomic step of a job's life, and its head says what it takes and
 * gives.
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

/** What every script begins with. */
const SHARED = textOf('ledger');

/** As ioredis defines commands. */
export const LEDGER_SCRIPTS = Object.fromEntries(
  NAMES.map((name) => [`ledger-${name}`, { numberOfKeys: 1, lua: `${SHARED}\n${textOf(name)}` }]),
) as Record<LedgerScript, { numberOfKeys: number; lua: string }>;

function textOf(name: string): string {
  return readFileSync(new URL(`${name}.lua`, import.meta.url), 'utf8');
}
