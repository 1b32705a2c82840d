/** `keep_alive`: how long a model stays loaded after its last request. */
import { z } from 'zod';

const UNIT_MS: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};
const DURATION = /^[-+]?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/;

const error = 'Expected a number of seconds, or a duration such as "5m"; below 0: for ever';
const Duration = z.string().refine((text) => millisecondsOf(text) !== undefined, { error });

export const KeepAlive = z.union([z.number(), Duration], { error }).nullish().meta({
  description: 'How long the model stays loaded, where models are loaded on demand. Default: --keep-alive',
});

/** Undefined for the server's default, Infinity for ever. */
export function keptMs(given: string | number | null | undefined): number | undefined {
  if (given == null) return undefined;
  const ms = typeof given === 'number' ? given * 1_000 : millisecondsOf(given)!;
  return ms < 0 ? Number.POSITIVE_INFINITY : ms;
}

/** Undefined for a text that is no duration. */
function millisecondsOf(text: string): number | undefined {
  if (text.length > 64) return undefined;
  if (/^-?\d+$/.test(text)) return Number(text) * 1_000;
  if (!DURATION.test(text)) return undefined;
  const parts = text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g);
  const ms = [...parts].reduce((sum, [, amount, unit]) => sum + Number(amount) * UNIT_MS[unit!]!, 0);
  return text.startsWith('-') ? -ms : ms;
}
