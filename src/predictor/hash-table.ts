/** The hash table of a batch: for every MoE layer and token the experts it will use. Layout: docs/hash-table.md */

const MAGIC = 0x48444953; // "SIDH" in memory order
const VERSION = 1;
const HEADER_WORDS = 8;
const HEADER_BYTES = HEADER_WORDS * 4;

/** Where a table's experts come from. */
export const TABLE_UNKNOWN = 0;
export const TABLE_PREDICTED = 1;
export const TABLE_EXACT = 2;
export type TableKind = typeof TABLE_UNKNOWN | typeof TABLE_PREDICTED | typeof TABLE_EXACT;

/** In place of an expert's index: this token names no (further) expert in this layer. */
export const NO_EXPERT = 65535;

export interface TableShape {
  batchId: number;
  layers: number;
  tokens: number;
  /** Experts named for a token in a layer; 0 in an unknown table. */
  k: number;
  kind: TableKind;
}

/** A table seen through its buffer; nothing is copied. */
export interface HashTable extends TableShape {
  readonly buffer: SharedArrayBuffer;
  /** (layers, tokens, k), index inside the layer. */
  readonly experts: Uint16Array;
  /** (layers, tokens, k), scaling factor of each expert. */
  readonly alpha: Float32Array;
}

/** A table with room for its entries: experts NO_EXPERT, alpha 0. */
export function createHashTable(shape: TableShape): HashTable {
  const entries = shape.layers * shape.tokens * shape.k;
  const buffer = new SharedArrayBuffer(alphaOffset(entries) + entries * 4);
  new Uint32Array(buffer, 0, HEADER_WORDS).set([
    MAGIC,
    VERSION,
    shape.batchId,
    shape.layers,
    shape.tokens,
    shape.k,
    shape.kind,
  ]);
  const table = view(buffer, shape);
  table.experts.fill(NO_EXPERT);
  return table;
}

/** A header alone: what is said of a batch whose experts nobody predicts. */
export function createUnknownTable(batchId: number, layers: number, tokens: number): HashTable {
  return createHashTable({ batchId, layers, tokens, k: 0, kind: TABLE_UNKNOWN });
}

/** Opens a table another thread wrote. Throws when the buffer is not a whole table of this version. */
export function openHashTable(buffer: SharedArrayBuffer): HashTable {
  if (buffer.byteLength < HEADER_BYTES)
    throw broken(`${buffer.byteLength} bytes, a header has ${HEADER_BYTES}`);
  const header = new Uint32Array(buffer, 0, HEADER_WORDS);
  const [magic, version, batchId, layers, tokens, k, kind] = header as unknown as number[];
  if (magic !== MAGIC) throw broken(`magic 0x${magic!.toString(16)}, expected 0x${MAGIC.toString(16)}`);
  if (version !== VERSION) throw broken(`version ${version}, expected ${VERSION}`);
  if (kind! > TABLE_EXACT) throw broken(`kind ${kind}`);
  if ((kind === TABLE_UNKNOWN) !== (k === 0)) throw broken(`kind ${kind} with k ${k}`);
  const entries = layers! * tokens! * k!;
  const bytes = alphaOffset(entries) + entries * 4;
  if (buffer.byteLength !== bytes) {
    throw broken(`${buffer.byteLength} bytes, (${layers}, ${tokens}, ${k}) takes ${bytes}`);
  }
  return view(buffer, {
    batchId: batchId!,
    layers: layers!,
    tokens: tokens!,
    k: k!,
    kind: kind as TableKind,
  });
}

function view(buffer: SharedArrayBuffer, { batchId, layers, tokens, k, kind }: TableShape): HashTable {
  const entries = layers * tokens * k;
  return {
    batchId,
    layers,
    tokens,
    k,
    kind,
    buffer,
    experts: new Uint16Array(buffer, HEADER_BYTES, entries),
    alpha: new Float32Array(buffer, alphaOffset(entries), entries),
  };
}

function alphaOffset(entries: number): number {
  return HEADER_BYTES + Math.ceil((entries * 2) / 4) * 4;
}

function broken(what: string): Error {
  return new Error(`Not a hash table: ${what}. This is a bug.`);
}
