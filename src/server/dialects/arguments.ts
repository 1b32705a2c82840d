import { parseExactly } from '../../text/exact-json.js';

/**
 * The arguments of a call, with their digits for `exactJson`. An empty object where they are no object: the answer was
 * cut off.
 */
export function argumentsObject(json: string): Record<string, unknown> {
  if (!json.startsWith('{')) return {};
  try {
    return parseExactly(json) as Record<string, unknown>;
  } catch {
    return {};
  }
}
