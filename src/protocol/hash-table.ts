/** The hash table of a batch: the expected experts of each token in every MoE layer. Layout: docs/hash-table.md */
import { NO_EXPERT } from '../native/addon-types.js';

const MAGIC = 0x48444953; // "SIDH" in memory order
const VERSION = 3;
const HEADER_WORDS = 8;
const HEADER_BYTES = HEADER_WORDS * 4;
const STATE_WORD = 7;

/**
 * States of a table. The builder changes `pending` to ready or failed, and the reader changes it to abandoned. The
 * first change wins.
 */
export const TABLE_PENDING = 0;
export const TABLE_READY = 1;
/** The hash function could not predict the batch, which then runs without a table. */
export const TABLE_FAILED = 2;
/** The batch started before the table was ready. */
export const TABLE_ABANDONED = 3;
type TableState = typeof TABLE_PENDING | typeof TABLE_READY | typeof TABLE_FAILED | typeof TABLE_ABANDONED;

/** Fewest experts per token and layer in a table, if the layer has as many. */
const LEAST_K = 4;

/** Number of experts in a table per token and layer: twice as many as the router chooses, and at least LEAST_K. */
export function tableK({ topK, experts }: { topK: number; experts: number }): number {
  return Math.min(experts, Math.max(LEAST_K, 2 * topK));
}

interface TableShape {
  batchId: number;
  layers: number;
  tokens: number;
  /** Experts listed per token and layer. */
  k: number;
  /** Experts per layer. */
  expertsPerLayer: number;
}

/** A view of a table in its buffer. Nothing is copied. */
export interface HashTable extends TableShape {
  readonly buffer: SharedArrayBuffer;
  /** (layers, tokens, k), index inside the layer, most likely first. */
  readonly experts: Uint16Array;
  /** (layers, tokens, k), scaling factor of each expert's output. */
  readonly alpha: Float32Array;
  /** (layers, tokens, k), chance that the model's router chooses the expert. */
  readonly chance: Float32Array;
  /** (layers, expertsPerLayer), chance that any token of the batch needs the expert. */
  readonly need: Float32Array;
  readonly state: TableState;
  /** Ends the pending state. Returns false if the other side has already done so. */
  settle(state: TableState): boolean;
}

/**
 * The hash tables of a batch, by stack. It is null where no token of the stack is known beforehand. For an
 * encoder-decoder model: one table for the prompts and one for the tokens that labels feed. For a decoder-only model:
 * one table with the prompts first, followed by the tokens that labels feed, input by input.
 */
export type BatchTables = (SharedArrayBuffer | null)[];

/** Creates a pending table. All experts are NO_EXPERT; alpha, chance and need are 0. */
export function createHashTable(shape: TableShape): HashTable {
  const buffer = new SharedArrayBuffer(layoutOf(shape).bytes);
  const { batchId, layers, tokens, k, expertsPerLayer } = shape;
  new Uint32Array(buffer, 0, STATE_WORD).set([MAGIC, VERSION, batchId, layers, tokens, k, expertsPerLayer]);
  const table = new View(buffer, shape);
  table.experts.fill(NO_EXPERT);
  return table;
}

/** Opens a table that another thread wrote. Throws if the buffer is not a complete table of this version. */
export function openHashTable(buffer: SharedArrayBuffer): HashTable {
  if (buffer.byteLength < HEADER_BYTES)
    throw broken(`${buffer.byteLength} bytes, a header has ${HEADER_BYTES}`);
  const header = new Uint32Array(buffer, 0, HEADER_WORDS);
  const [magic, version, batchId, layers, tokens, k, expertsPerLayer, state] = header as unknown as number[];
  if (magic !== MAGIC) throw broken(`magic 0x${magic!.toString(16)}, expected 0x${MAGIC.toString(16)}`);
  if (version !== VERSION) throw broken(`version ${version}, expected ${VERSION}`);
  if (state! > TABLE_ABANDONED) throw broken(`state ${state}`);
  const shape: TableShape = {
    batchId: batchId!,
    layers: layers!,
    tokens: tokens!,
    k: k!,
    expertsPerLayer: expertsPerLayer!,
  };
  const { bytes } = layoutOf(shape);
  if (buffer.byteLength !== bytes) {
    throw broken(
      `${buffer.byteLength} bytes, (${layers}, ${tokens}, ${k}) with ${expertsPerLayer} experts takes ${bytes}`,
    );
  }
  return new View(buffer, shape);
}

class View implements HashTable {
  readonly batchId: number;
  readonly layers: number;
  readonly tokens: number;
  readonly k: number;
  readonly expertsPerLayer: number;
  readonly buffer: SharedArrayBuffer;
  readonly experts: Uint16Array;
  readonly alpha: Float32Array;
  readonly chance: Float32Array;
  readonly need: Float32Array;
  readonly #state: Int32Array;

  constructor(buffer: SharedArrayBuffer, shape: TableShape) {
    this.batchId = shape.batchId;
    this.layers = shape.layers;
    this.tokens = shape.tokens;
    this.k = shape.k;
    this.expertsPerLayer = shape.expertsPerLayer;
    this.buffer = buffer;
    const { entries, alpha, chance, need } = layoutOf(shape);
    this.experts = new Uint16Array(buffer, HEADER_BYTES, entries);
    this.alpha = new Float32Array(buffer, alpha, entries);
    this.chance = new Float32Array(buffer, chance, entries);
    this.need = new Float32Array(buffer, need, shape.layers * shape.expertsPerLayer);
    this.#state = new Int32Array(buffer, STATE_WORD * 4, 1);
  }

  get state(): TableState {
    return Atomics.load(this.#state, 0) as TableState;
  }

  settle(state: TableState): boolean {
    return Atomics.compareExchange(this.#state, 0, TABLE_PENDING, state) === TABLE_PENDING;
  }
}

function layoutOf({ layers, tokens, k, expertsPerLayer }: TableShape) {
  const entries = layers * tokens * k;
  const alpha = HEADER_BYTES + Math.ceil((entries * 2) / 4) * 4;
  const chance = alpha + entries * 4;
  const need = chance + entries * 4;
  return { entries, alpha, chance, need, bytes: need + layers * expertsPerLayer * 4 };
}

function broken(what: string): Error {
  return new Error(`Not a hash table: ${what}. This is a bug.`);
}
