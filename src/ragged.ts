/** Lists of different lengths, one after the other in one array. */

/** Where each list begins, and the end of the last; (lists + 1). */
export function offsetsOf(lengths: readonly number[]): Int32Array<ArrayBuffer> {
  const offsets = new Int32Array(lengths.length + 1);
  lengths.forEach((length, i) => {
    offsets[i + 1] = offsets[i]! + length;
  });
  return offsets;
}

export interface Ragged {
  values: Int32Array<ArrayBuffer>;
  offsets: Int32Array<ArrayBuffer>;
}

export function concatenated(lists: readonly ArrayLike<number>[]): Ragged {
  const offsets = offsetsOf(lists.map(({ length }) => length));
  const values = new Int32Array(offsets.at(-1)!);
  lists.forEach((list, i) => {
    values.set(list, offsets[i]);
  });
  return { values, offsets };
}
