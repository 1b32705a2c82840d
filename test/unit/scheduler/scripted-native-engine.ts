import type {
  DeviceUsage,
  Engine,
  ModelShape,
  NativeBatch,
  PackFormats,
  Residency,
  RunResult,
} from '../../../src/native/addon-types.js';
import { NO_PARENT } from '../../../src/native/addon-types.js';
import { lastStack } from '../../../src/native/model-shape.js';
import { residencyOf } from '../inference/residency-fixture.js';

const VOCAB = 16;
const EXPERTS = 4;
export const PAGE_TOKENS = 4;

const SIZES = {
  vocabSize: VOCAB,
  width: 8,
  heads: 2,
  kvHeads: 2,
  headDim: 4,
  experts: EXPERTS,
  firstExperts: [0, EXPERTS, 2 * EXPERTS],
  expertWidth: 8,
  contextTokens: null,
};

export const SHAPE: ModelShape = {
  ...SIZES,
  family: 'switch_transformers',
  stacks: [
    { name: 'encoder', layers: 2, moeLayers: [1], causal: false, crosses: false },
    { name: 'decoder', layers: 2, moeLayers: [1], causal: true, crosses: true },
  ],
  topK: 1,
  normalized: false,
  sigmoid: false,
  expertCapacity: 64,
  moeLayers: ['encoder.1', 'decoder.1'],
  tiedHead: true,
  tokens: { start: 0, end: [1], pad: 0 },
};

export const DECODER_ONLY: ModelShape = {
  ...SIZES,
  family: 'olmoe',
  stacks: [{ name: 'decoder', layers: 2, moeLayers: [0, 1], causal: true, crosses: false }],
  topK: 2,
  normalized: false,
  sigmoid: false,
  expertCapacity: null,
  moeLayers: ['decoder.0', 'decoder.1'],
  tiedHead: false,
  contextTokens: 128,
  tokens: { start: null, end: [1, 14], pad: null },
};

export const ENCODER_ONLY: ModelShape = {
  ...DECODER_ONLY,
  family: 'nomic_bert',
  stacks: [{ name: 'encoder', layers: 2, moeLayers: [1], causal: false, crosses: false }],
  moeLayers: ['encoder.1'],
  firstExperts: [0, EXPERTS],
};

interface Sequence {
  stack: number;
  /** All its tokens, including those of a parent that it continues. */
  tokens: number[];
  /** Tokens of the parent that it attends to; empty without one. */
  context: number[];
  /** Its pages. Sequences share a page by holding the same number. */
  pages: number[];
  /** Its recurrent state, which forks share until one of both runs; null where it keeps pages alone. */
  state: number | null;
}

/**
 * A test double of the native engine. It checks the engine's contract and answers by a rule: the next token is (sum
 * of the context's tokens + length of the sequence) mod VOCAB, or without an encoder (sum of all tokens so far) mod
 * VOCAB. It counts pages and states as the engine does: sequences share them until one writes.
 */
export class ScriptedEngine implements Engine {
  readonly shape: ModelShape;
  readonly formats: PackFormats = { experts: { dtype: 'f32' }, dense: { dtype: 'f32' } };
  readonly plan = {
    driver: 0,
    dense: 0,
    routers: 0,
    kvCache: 0,
    workspace: 0,
    hostWorkspace: 0,
    slot: 100,
    block: 100,
    blockBytes: [100, 100],
    layerExperts: [EXPERTS, EXPERTS],
    experts: 8,
    fixed: 1000,
    smallest: 1100,
    resident: 1800,
    expertBytes: 800,
    tokenDense: 200,
    tokenDemand: 200,
    recencyFloor: 1200,
    contextTokens: null,
  };
  readonly tableWeight = 1;
  readonly calls: NativeBatch[] = [];
  readonly sequences = new Map<number, Sequence>();
  closed = false;
  budget = 1800;
  /** Most pages, and most recurrent states, in use at any time. */
  peakPages = 0;
  peakStates = 0;
  /** Called before each pass. It may throw, which fails the pass. */
  beforeRun: (batch: NativeBatch) => void = () => {};
  /**
   * Edits the logits of a row before a token is picked. `context` is that of the sequence, or all its tokens so far
   * without an encoder. `tokens` are all its tokens so far.
   */
  editRow: (row: Float32Array, context: number[], tokens: number[]) => void = () => {};

  readonly #pages: number;
  /** Null where no layer is recurrent. */
  readonly #states: number | null;
  #nextPage = 0;

  constructor(pages: number, shape = SHAPE, states: number | null = null) {
    this.#pages = pages;
    this.#states = states;
    this.shape = shape;
  }

  get statesUsed(): number {
    return new Set([...this.sequences.values()].flatMap(({ state }) => state ?? [])).size;
  }

  get pagesUsed(): number {
    return new Set([...this.sequences.values()].flatMap(({ pages }) => pages)).size;
  }

  runBatch(batch: NativeBatch): RunResult {
    this.beforeRun(batch);
    this.calls.push(batch);
    if (batch.tokens.length === 0) throw new Error('a pass without tokens');
    const last = batch.stack === lastStack(this.shape);
    if (!last && (batch.picks || batch.queries)) throw new Error('picks of a stack without logits');
    const rows = this.#append(batch);
    this.peakPages = Math.max(this.peakPages, this.pagesUsed);
    this.peakStates = Math.max(this.peakStates, this.statesUsed);
    if (this.statesUsed > (this.#states ?? Number.POSITIVE_INFINITY)) throw new Error('too many states');
    if (this.pagesUsed > this.#pages) throw Object.assign(new Error('KV cache full'), { code: 'cannot_run' });
    const layers = this.shape.stacks[batch.stack]!.moeLayers.length;
    const first = this.shape.stacks
      .slice(0, batch.stack)
      .reduce((sum, { moeLayers }) => sum + moeLayers.length, 0);
    const { topK } = this.shape;
    const dispatch = new Uint16Array(layers * batch.tokens.length * topK).map(
      (_, i) => (batch.tokens[Math.floor(i / topK) % batch.tokens.length]! + (i % topK)) % EXPERTS,
    );
    const found = new Uint8Array(layers * EXPERTS).map((_, i) => 1 + (i % EXPERTS));
    const stats = {
      needed: 1,
      resident: 1,
      prefetched: 0,
      late: 0,
      onDemand: 0,
      prefetchesBegun: 0,
      prefetchesForeseen: 0,
      prefetchesCancelled: 0,
      prefetchesWasted: 0,
      bytesMoved: 0,
      stallNs: 1e6,
      peer: 0,
      cpu: 0,
      peerWaitNs: 0,
      devicePasses: 0,
      passNs: 2e6,
      diskReads: 0,
      diskBytes: 0,
      overtakes: 0,
    };
    const flat = Int32Array.from({ length: layers }, (_, i) => first + i);
    return { ...(last && answers(batch, rows)), layers: flat, dispatch, found, stats };
  }

  /** Returns the logits of every row. */
  #append(batch: NativeBatch): Float32Array[] {
    const rows: Float32Array[] = [];
    batch.sequences.forEach((id, i) => {
      const sequence = this.sequences.get(id) ?? this.#begin(batch, batch.parents?.[i] ?? NO_PARENT);
      this.sequences.set(id, sequence);
      if (sequence.state === null) throw new Error(`sequence ${id} has no state`);
      this.#copyShared(sequence);
      for (const token of batch.tokens.subarray(batch.offsets[i], batch.offsets[i + 1])) {
        if (sequence.tokens.length % PAGE_TOKENS === 0)
          sequence.pages = [...sequence.pages, this.#nextPage++];
        sequence.tokens.push(token);
        rows.push(this.#row(sequence));
      }
    });
    return rows;
  }

  #begin({ stack }: NativeBatch, id: number): Sequence {
    const crosses = this.shape.stacks[stack]!.crosses;
    if (crosses !== (id !== NO_PARENT) && crosses)
      throw new Error('a sequence that attends across needs a parent');
    const state = this.#nextPage++;
    if (id === NO_PARENT) return { stack, tokens: [], context: [], pages: [], state };
    const parent = this.sequences.get(id);
    if (parent === undefined) throw new Error(`no parent ${id}`);
    if (parent.stack < stack) return { stack, tokens: [], context: parent.tokens, pages: [], state };
    return this.#copy(parent, parent.tokens.length);
  }

  /** Shares the pages. */
  #copy({ stack, tokens, context, pages, state }: Sequence, length: number): Sequence {
    const shared = pages.slice(0, Math.ceil(length / PAGE_TOKENS));
    return { stack, tokens: tokens.slice(0, length), context, pages: shared, state };
  }

  /** A sequence writes into pages and a state that no other sequence has. */
  #copyShared(sequence: Sequence): void {
    const others = [...this.sequences.values()].filter((each) => each !== sequence);
    if (others.some(({ state }) => state === sequence.state)) sequence.state = this.#nextPage++;
    const { tokens, pages } = sequence;
    const last = pages.length - 1;
    if (tokens.length % PAGE_TOKENS === 0 || !others.some((each) => each.pages.includes(pages[last]!)))
      return;
    sequence.pages = [...pages.slice(0, last), this.#nextPage++];
  }

  #get(id: number, tokens: number): Sequence {
    const found = this.sequences.get(id);
    if (found === undefined || found.tokens.length < tokens || tokens < 1) {
      throw new Error(`sequence ${id} has ${found?.tokens.length} tokens, not ${tokens}`);
    }
    return found;
  }

  forkSequence(from: number, to: number, tokens: number): void {
    const { state, tokens: all } = this.#get(from, tokens);
    if (this.#states !== null && (state === null || all.length !== tokens)) {
      throw new Error(`sequence ${from} has no state behind ${tokens} tokens`);
    }
    this.keepPages(from, to, tokens);
    this.sequences.get(to)!.state = state;
  }

  keepPages(from: number, to: number, tokens: number): void {
    if (this.sequences.has(to)) throw new Error(`sequence ${to} exists already`);
    const copy = this.#copy(this.#get(from, tokens), tokens);
    this.sequences.set(to, this.#states === null ? copy : { ...copy, state: null });
  }

  sharePages(id: number, from: number, tokens: number): void {
    const [own, other] = [this.#get(id, tokens), this.#get(from, tokens)];
    if (tokens % PAGE_TOKENS !== 0) throw new Error(`${tokens} tokens are not whole pages`);
    if (own.tokens.slice(0, tokens).join() !== other.tokens.slice(0, tokens).join()) {
      throw new Error(`sequences ${id} and ${from} do not begin with the same ${tokens} tokens`);
    }
    const pages = tokens / PAGE_TOKENS;
    own.pages = [...other.pages.slice(0, pages), ...own.pages.slice(pages)];
  }

  #row({ tokens, context }: Sequence): Float32Array {
    const row = new Float32Array(VOCAB);
    const sum = (ids: number[]) => ids.reduce((total, token) => total + token, 0);
    const across = this.shape.stacks.length > 1;
    row[(across ? sum(context) + tokens.length : sum(tokens)) % VOCAB] = 4;
    this.editRow(row, across ? context : tokens, tokens);
    return row;
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
      kvPageBytes: 10,
      kvWindows:
        this.#states === null
          ? []
          : [{ window: 0, pages: this.#states, pagesFree: this.#states - this.statesUsed, pageBytes: 20 }],
      host: { budgetBytes: 0, usedBytes: 0, experts: 0 },
      disk: { direct: false, depth: 1, chunkBytes: 1, bytesPerSecond: 0 },
      peers: [],
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

/** A pick with a seed takes the token `seed + position` instead of the most likely one. */
function answers(
  { picks, queries }: NativeBatch,
  rows: Float32Array[],
): Pick<RunResult, 'picked' | 'pickedLogprobs' | 'topIds' | 'topLogprobs' | 'queryLogprobs'> {
  const picked: number[] = [];
  const pickedLogprobs: number[] = [];
  const top: [number, number][] = [];
  picks?.rows.forEach((at, i) => {
    const row = rows[at]!;
    const bad = row.findIndex((logit) => !Number.isFinite(logit));
    const { seed, position, temperature } = picks.sampling ?? {};
    const sampled = temperature?.[i]
      ? (Number(seed![i]) + position![i]!) % VOCAB
      : row.indexOf(Math.max(...row));
    picked.push(bad >= 0 ? -1 - bad : sampled);
    pickedLogprobs.push(bad >= 0 ? Number.NaN : logprob(row, sampled));
    const ranked = [...row.keys()].sort((a, b) => row[b]! - row[a]! || a - b);
    top.push(...ranked.slice(0, picks.top?.[i] ?? 0).map((id): [number, number] => [id, logprob(row, id)]));
  });
  return {
    picked: Int32Array.from(picked),
    pickedLogprobs: Float64Array.from(pickedLogprobs),
    topIds: Int32Array.from(top, ([id]) => id),
    topLogprobs: Float64Array.from(top, ([, value]) => value),
    queryLogprobs: Float64Array.from(queries?.rows ?? [], (at, i) => logprob(rows[at]!, queries!.tokens[i]!)),
  };
}

function logprob(row: Float32Array, token: number): number {
  return row[token]! - Math.log(row.reduce((sum, logit) => sum + Math.exp(logit), 0));
}
