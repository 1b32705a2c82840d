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

/**
 * A Redis whose memory is full refuses new jobs. The other scripts finish what was accepted, and so make room. Redis
 * lets a script write without room once a command has run that might free memory.
 */
const EVEN_WHEN_FULL = "redis.call('DEL', KEYS[1] .. ':ledger:none')";

/** The scripts in the form in which ioredis defines commands. */
export const LEDGER_SCRIPTS = Object.fromEntries(
  NAMES.map((name) => [`ledger-${name}`, { numberOfKeys: 1, lua: scriptOf(name) }]),
) as Record<LedgerScript, { numberOfKeys: number; lua: string }>;

function scriptOf(name: string): string {
  const script = `${SHARED}\n${textOf(name)}`;
  return name === 'accept' ? script : `${EVEN_WHEN_FULL}\n${script}`;
}

function textOf(name: string): string {
  return readFileSync(new URL(`${name}.lua`, import.meta.url), 'utf8');
}
