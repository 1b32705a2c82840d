/** Sets of experts as bits: which ones tables name, and how many of them are new. */
import type { HashTable } from './hash-table.js';

/** Bit i: the expert of flat number i over all layers of the tables it was made from. */
export type ExpertSet = Uint32Array;

/** An expert is in a table's set when the table says that it is rather needed than not. */
const NEEDED = 0.5;

/** Of the tables of one input, one behind the other; sets of the same model and sides can be compared. */
export function expertSet(tables: readonly Pick<HashTable, 'need'>[]): ExpertSet {
  const experts = tables.reduce((sum, { need }) => sum + need.length, 0);
  const set = new Uint32Array(Math.ceil(experts / 32));
  let id = 0;
  for (const { need } of tables) {
    for (const chance of need) {
      if (chance >= NEEDED) set[id >>> 5]! |= 1 << (id & 31);
      id += 1;
    }
  }
  return set;
}

/** Missing words are empty: an input without labels has no decoder table. */
export function union(a: ExpertSet, b: ExpertSet): ExpertSet {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a];
  return long.map((bits, word) => bits | (short[word] ?? 0));
}

/** Members of `set` that `known` lacks. */
export function newIn(set: ExpertSet, known: ExpertSet): number {
  let count = 0;
  for (let word = 0; word < set.length; word++) count += bitCount(set[word]! & ~(known[word] ?? 0));
  return count;
}

function bitCount(bits: number): number {
  const pairs = bits - ((bits >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return (((fours + (fours >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
