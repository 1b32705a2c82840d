/** Reads JSON as Python does: whole numbers of any size, floats apart from them, keys in their order. */
import { JsonReader } from '../json-reader.js';
import { Dict, type Value } from './values.js';

/** As Python's limit. */
const MOST_DIGITS = 4300;

/** Throws an Error for a text that is no JSON. Its depth has to be checked before. */
export function parseJson(json: string): Value {
  return new ValueReader(json).read();
}

class ValueReader extends JsonReader<Value> {
  protected constant(value: boolean | null | string): Value {
    return value;
  }

  protected number(text: string): Value {
    if (/[.eE]/.test(text)) return Number(text);
    if (text.length > MOST_DIGITS) throw new SyntaxError(`a number has more than ${MOST_DIGITS} digits`);
    return BigInt(text);
  }

  protected list(items: Value[]): Value {
    return items;
  }

  protected object(entries: [string, Value][]): Value {
    return new Dict(entries);
  }
}
