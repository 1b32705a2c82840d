/** Checks the shape of a JSON text before it is parsed: its bounds, and that no object has a key twice. */

interface JsonBounds {
  /** Levels of nested objects and lists. */
  depth: number;
  fields: number;
  /** Commas, which follow every member and element but the last of its object or list. Default: no bound. */
  commas?: number;
  /** Whether an object may have a key twice. Default: no. */
  duplicates?: boolean;
}

/** Bounds of what a request holds: of its body, and of JSON in its texts. */
export const REQUEST_BOUNDS = {
  depth: 32,
  /** Fields of all objects. A conversation of an agent has about 18 for each call of a tool, with its result. */
  fields: 8192,
  /** The longest lists are of token ids: a whole context of a large model. */
  commas: 262_144,
} as const;

export type JsonFault =
  | { kind: 'depth' | 'fields' | 'commas' }
  /** `path` leads to the second value, and ends with the key. */
  | { kind: 'duplicate'; path: (string | number)[] };

/** What the walk knows of an object or a list that it is in. */
interface Level {
  /** Keys so far; undefined where they do not matter. */
  keys: Set<string> | undefined;
  /** Key or index of the present value. */
  at: string | number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

/**
 * The first fault of the UTF-8 text, or undefined. Takes time in proportion to the text, and keeps no more than the
 * keys of the objects that are open. A text that is no JSON may pass.
 */
export function shapeFault(json: Uint8Array, most: JsonBounds): JsonFault | undefined {
  const levels: Level[] = [];
  let level: Level | undefined;
  let fields = 0;
  let commas = 0;
  let [textStart, textEnd] = [0, 0];
  for (let at = 0; at < json.length; at += 1) {
    const code = json[at];
    if (code === QUOTE) {
      textStart = at;
      at = closingQuote(json, at);
      textEnd = at + 1;
    } else if (code === 0x5b || code === 0x7b) {
      level =
        code === 0x7b
          ? { keys: most.duplicates ? undefined : new Set(), at: '' }
          : { keys: undefined, at: 0 };
      levels.push(level);
      if (levels.length > most.depth) return { kind: 'depth' };
    } else if (code === 0x5d || code === 0x7d) {
      levels.pop();
      level = levels.at(-1);
    } else if (code === COMMA) {
      commas += 1;
      if (commas > (most.commas ?? Number.POSITIVE_INFINITY)) return { kind: 'commas' };
      if (typeof level?.at === 'number') level.at += 1;
    } else if (code === COLON) {
      fields += 1;
      if (fields > most.fields) return { kind: 'fields' };
      if (level?.keys === undefined) continue;
      const key = decoded(json.subarray(textStart, textEnd));
      level.at = key;
      if (level.keys.has(key)) return { kind: 'duplicate', path: levels.map((each) => each.at) };
      level.keys.add(key);
    }
  }
  return undefined;
}

/** The place of the quote that closes the string, or a place behind the text. */
function closingQuote(json: Uint8Array, opening: number): number {
  for (let quote = json.indexOf(QUOTE, opening + 1); quote >= 0; quote = json.indexOf(QUOTE, quote + 1)) {
    let run = quote;
    while (json[run - 1] === BACKSLASH) run -= 1;
    if ((quote - run) % 2 === 0) return quote;
  }
  return json.length;
}

/** The text of a JSON string, with its quotes; spellings with and without escapes give the same text. */
function decoded(quoted: Uint8Array): string {
  const text = Buffer.from(quoted.buffer, quoted.byteOffset, quoted.byteLength).toString('utf8');
  if (!quoted.includes(BACKSLASH)) return text.slice(1, -1);
  try {
    return JSON.parse(text) as string;
  } catch {
    // The parser will refuse the whole text.
    return text;
  }
}
