/** Fields of a request that have no effect. Clients of OpenAI's API send many; an answer names them in a header. */
import type { z } from 'zod';

/** Most fields that are named. */
const MOST_NAMED = 32;
/** Other names do not belong into a header. */
const NAME = /^[\w-]{1,64}$/;

interface IgnoredFields {
  /** Fields of the schema that have no effect. */
  ignores: readonly string[];
  /** Leaves unknown fields in the body, so that the schema refuses them. */
  strict: boolean;
}

/** Returns the body without unknown fields, and the names of those that have no effect. */
export function withoutIgnored(
  body: unknown,
  { shape }: z.ZodObject,
  { ignores, strict }: IgnoredFields,
): { used: unknown; ignored: string[] } {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return { used: body, ignored: [] };
  const fields = Object.entries(body);
  const known = (name: string) => Object.hasOwn(shape, name);
  const without = (name: string) => (known(name) ? ignores.includes(name) : !strict);
  const ignored = fields.filter(([name, value]) => value !== null && without(name)).map(([name]) => name);
  const used = Object.fromEntries(fields.filter(([name]) => known(name) || strict));
  return { used, ignored: ignored.filter((name) => NAME.test(name)).slice(0, MOST_NAMED) };
}
