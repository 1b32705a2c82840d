import type {
  DeviceUsage,
  Engine,
  ModelShape,
  NativeBatch,
  PackFormats,
  Residency,
  RunResult,
} from '../../../src/native/addon-types.js';
import { residencyOf } from './residency-fixture.js';

const VOCAB = 16;
const EXPERTS = 4;
export const PAGE_TOKENS = 4;

export const SHAPE: ModelShape = {
  modelType: 'switch_transformers',
  vocabSize: VOCAB,
  dModel: 8,
  dKv: 4,
  dFf: 8,
  heads: 2,
  encoderLayers: 2,
  decoderLayers: 2,
  experts: EXPERTS,
  expertCapacity: 64,
  moeLayers: ['encoder.1', 'decoder.1'],
  tiedHead: true,
  decoderStartTokenId: 0,
  eosTokenId: 1,
  padTokenId: 0,
};

/**
 * A double of the native engine that checks its contract and answers by a rule: the next token is
 * (sum of the context's tokens + length of the decoder sequence) mod VOCAB.
 */
export class ScriptedEngine implements Engine {
  readonly shape = SHAPE;
  readonly formats: PackFormats = { experts: { dtype: 'f32' }, dense: { dtype: 'f32' } };
  readonly plan = {
    dense: 0,
    routers: 0,
    kvCache: 0,
    workspace: 0,
    slot: 100,
    experts: 8,
    fixed: 1000,
    smallest: 1100,
    resident: 1800,
    expertBytes: 800,
  };
  readonly calls: NativeBatch[] = [];
  readonly contexts = new Map<number, number[]>();
  readonly sequences = new Map<number, { context: number; length: number }>();
  closed = false;
  budget = 1800;
  /** Most pages in use at any time. */
  peakPages = 0;
  /** Called before each step; throws to make it fail. */
  beforeRun: (batch: NativeBatch) => void = () => {};
  /** Changes logits of a row before they are given back. */
  editRow: (row: Float32Array, context: number[]) => void = () => {};

  readonly #pages: number;

  constructor(pages: number) {
    this.#pages = pages;
  }

  get pagesUsed(): number {
    const lengths = [
      ...[...this.contexts.values()].map((tokens) => tokens.length),
      ...[...this.sequences.values()].map(({ length }) => length),
    ];
    return lengths.reduce((sum, length) => sum + Math.ceil(length / PAGE_TOKENS), 0);
  }

  runBatch(batch: NativeBatch): RunResult {
    this.beforeRun(batch);
    this.calls.push(batch);
    const rows = batch.phase === 'encode' ? [] : this.#decode(batch);
    if (batch.phase === 'encode') {
      batch.sequences.forEach((id, i) => {
        if (this.contexts.has(id)) throw new Error(`context ${id} exists`);
        this.contexts.set(id, [...batch.tokens.subarray(batch.offsets[i], batch.offsets[i + 1])]);
      });
    }
    this.peakPages = Math.max(this.peakPages, this.pagesUsed);
    if (this.pagesUsed > this.#pages) throw Object.assign(new Error('KV cache full'), { code: 'cannot_run' });
    const logits = Float32Array.from(rows.flatMap((row) => [...row]));
    const dispatch = Uint16Array.from(batch.tokens, (token) => token % EXPERTS);
    const found = Uint8Array.of(1, 2, 3, 4);
    const layers = Int32Array.of(batch.phase === 'encode' ? 0 : 1);
    const stats = {
      needed: 1,
      resident: 1,
      prefetched: 0,
      late: 0,
      onDemand: 0,
      prefetchesBegun: 0,
      prefetchesCancelled: 0,
      prefetchesWasted: 0,
      bytesMoved: 0,
      stallNs: 1e6,
      passNs: 2e6,
      diskReads: 0,
      diskBytes: 0,
      overtakes: 0,
    };
    return { logits, layers, dispatch, found, stats };
  }

  #decode(batch: NativeBatch): Float32Array[] {
    const rows: Float32Array[] = [];
    const wanted = new Set(batch.logitRows);
    batch.sequences.forEach((id, i) => {
      const context = batch.contexts![i]!;
      const tokens = this.contexts.get(context);
      if (tokens === undefined) throw new Error(`no context ${context}`);
      const sequence = this.sequences.get(id) ?? { context, length: 0 };
      this.sequences.set(id, sequence);
      for (let at = batch.offsets[i]!; at < batch.offsets[i + 1]!; at++) {
        sequence.length += 1;
        if (!wanted.has(at)) continue;
        const row = new Float32Array(VOCAB);
        row[(tokens.reduce((sum, token) => sum + token, 0) + sequence.length) % VOCAB] = 4;
        this.editRow(row, tokens);
        rows.push(row);
      }
    });
    return rows;
  }

  releaseContexts(ids: Int32Array): void {
    for (const id of ids) this.contexts.delete(id);
  }

  releaseSequences(ids: Int32Array): void {
    for (const id of ids) this.sequences.delete(id);
  }

  residency(): Residency {
    return residencyOf(Array.from({ length: 8 }, () => ({})));
  }

  usage(): DeviceUsage {
    return {
      budgetBytes: this.budget,
      usedBytes: 0,
      peakBytes: 0,
      smallestBytes: 1100,
      slots: 8,
      kvPages: this.#pages,
      kvPagesFree: this.#pages - this.pagesUsed,
      host: { budgetBytes: 0, usedBytes: 0, experts: 0 },
      disk: [],
    };
  }

  setBudget(bytes: number): void {
    if (bytes < 1100) throw Object.assign(new Error('too small'), { code: 'budget_too_small' });
    this.budget = bytes;
  }

  pin(): void {}
  checkIntegrity(): void {}
  close(): void {
    this.closed = true;
  }
}
