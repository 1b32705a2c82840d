/** Checks the bounds of a JSON text before it is parsed. */

interface JsonBounds {
  /** Levels of nested objects and lists. */
  depth: number;
  fields: number;
  /** Commas, which follow every member and element but the last of its object or list. Default: no bound. */
  commas?: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;

/** The first bound that the UTF-8 text exceeds, or undefined. Counts brackets and colons outside of strings. */
export function passedBound(json: Uint8Array, most: JsonBounds): keyof JsonBounds | undefined {
  let depth = 0;
  let fields = 0;
  let commas = 0;
  for (let at = 0; at < json.length; at += 1) {
    const code = json[at];
    if (code === QUOTE) {
      for (at += 1; at < json.length && json[at] !== QUOTE; at += 1) if (json[at] === BACKSLASH) at += 1;
    } else if (code === 0x5b || code === 0x7b) {
      depth += 1;
      if (depth > most.depth) return 'depth';
    } else if (code === 0x5d || code === 0x7d) {
      depth -= 1;
    } else if (code === COMMA) {
      commas += 1;
      if (commas > (most.commas ?? Number.POSITIVE_INFINITY)) return 'commas';
    } else if (code === COLON) {
      fields += 1;
      if (fields > most.fields) return 'fields';
    }
  }
  return undefined;
}
