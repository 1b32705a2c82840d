/** Writes JSON in pieces, so that other work can be done between them: a large value would hold the event loop. */
import { exactJson, sourceOf } from './exact-json.js';

/** Characters of a piece, about. Values of an array are written together up to this size. */
const PIECE = 64 * 1024;
/** Characters of a value that is neither text nor list nor object, about. */
const INTEGER = 6;
const FRACTION = 20;

/**
 * The pieces together are the JSON of `value`, which holds nothing but plain objects, arrays and primitive values, with
 * the digits of what `parseExactly` read.
 */
export function* jsonPieces(value: unknown): Generator<string> {
  let piece = '';
  for (const part of partsOf(value)) {
    piece += part;
    if (piece.length < PIECE) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

/** Size of the JSON in bytes: exact where it is small, about otherwise. */
export function jsonBytes(value: unknown): number {
  if (roomAfter(value, PIECE) >= 0) return Buffer.byteLength(JSON.stringify(value));
  return Number.MAX_SAFE_INTEGER - roomAfter(value, Number.MAX_SAFE_INTEGER);
}

function* partsOf(value: unknown): Generator<string> {
  if (roomAfter(value, PIECE) >= 0) yield exactJson(value);
  else if (typeof value === 'string') yield* partsOfText(value);
  else if (sourceOf(value as object) !== undefined) yield exactJson(value);
  else if (Array.isArray(value)) yield* partsOfArray(value);
  else yield* partsOfObject(value as object);
}

/** What is left of `room` characters behind the value, about. Negative if it does not fit. */
function roomAfter(value: unknown, room: number): number {
  if (typeof value === 'string') return room - value.length;
  if (typeof value !== 'object' || value === null) {
    return room - (typeof value === 'number' && !Number.isInteger(value) ? FRACTION : INTEGER);
  }
  let left = room;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && left >= 0; i += 1) left = roomAfter(value[i], left);
    return left;
  }
  for (const key in value) {
    left = roomAfter((value as Record<string, unknown>)[key], left - key.length);
    if (left < 0) break;
  }
  return left;
}

function* partsOfText(text: string): Generator<string> {
  yield '"';
  for (let at = 0; at < text.length; ) {
    let end = at + PIECE;
    // The halves of a surrogate pair would be written as escapes.
    if (/[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end += 1;
    yield JSON.stringify(text.slice(at, end)).slice(1, -1);
    at = end;
  }
  yield '"';
}

function* partsOfArray(array: readonly unknown[]): Generator<string> {
  for (let at = 0; at < array.length; ) {
    yield at === 0 ? '[' : ',';
    let end = at;
    for (let room = PIECE; end < array.length; end += 1) {
      room = roomAfter(array[end], room);
      if (room < 0) break;
    }
    if (end > at) yield exactJson(array.slice(at, end)).slice(1, -1);
    else yield* partsOf(array[at]);
    at = Math.max(end, at + 1);
  }
  yield ']';
}

function* partsOfObject(object: object): Generator<string> {
  let before = '{';
  for (const [key, value] of Object.entries(object)) {
    if (value === undefined) continue;
    yield `${before}${JSON.stringify(key)}:`;
    yield* partsOf(value);
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}
