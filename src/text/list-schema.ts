/** Lists in the schemas of requests. */
import { z } from 'zod';

/** zod tells every fault of every entry, and a request has room for half a million entries. */
const FirstFaultList = z.core.$constructor<z.ZodArray>('FirstFaultList', (list, def) => {
  z.ZodArray.init(list, def);
  const { parse } = list._zod;
  list._zod.parse = (payload, context) => parse(payload, { ...context, abortEarly: true });
});

/**
 * A list of at most `most` entries. A longer one is refused before its entries are checked, and the first entry that
 * is wrong ends the check.
 */
export function listOf<S extends z.ZodType>(entry: S, most: number): z.ZodArray<S> {
  const list = new FirstFaultList({ type: 'array', element: entry }) as unknown as z.ZodArray<S>;
  return list.max(most);
}
