/** The sequences of several traces of one model, read from their files on demand. */
import { SidaError } from '../../errors.js';
import type { TrainingBatch } from '../../native/addon-types.js';
import { concatenated, offsetsOf } from '../../ragged.js';
import { describeModel, sameModel } from '../../trace/trace-file.js';
import { TraceIndex } from '../../trace/trace-index.js';
import type { TRACE_STACKS } from '../../trace/trace-record.js';

function cannotRun(message: string): SidaError {
  return new SidaError({ code: 'cannot_run', message });
}

export class Corpus {
  readonly traces: readonly TraceIndex[];
  /** (traces + 1), number of each trace's first sequence, then the number of all sequences. */
  readonly #starts: number[];

  private constructor(traces: TraceIndex[]) {
    this.traces = traces;
    this.#starts = [0];
    for (const trace of traces) this.#starts.push(this.#starts.at(-1)! + trace.records);
  }

  /** Throws if a trace is missing or incomplete, or if the traces hold no records. */
  static async open(directories: readonly string[]): Promise<Corpus> {
    const traces: TraceIndex[] = [];
    try {
      for (const directory of directories) traces.push(await TraceIndex.open(directory));
      const corpus = new Corpus(traces);
      if (corpus.sequences === 0) throw cannotRun(`There are no records in ${directories.join(', ')}`);
      return corpus;
    } catch (error) {
      for (const trace of traces) trace.close();
      throw error;
    }
  }

  get sequences(): number {
    return this.#starts.at(-1)!;
  }

  /** Experts per token that every trace has recorded. */
  get top(): number {
    return Math.min(...this.traces.map((trace) => trace.meta.top));
  }

  /** Names of the model's stacks. */
  get stacks(): readonly (typeof TRACE_STACKS)[number][] {
    return this.traces[0]!.meta.stacks;
  }

  layers(stack: number): string[] {
    return this.traces[0]!.meta.layers.filter((layer) => layer.startsWith(`${this.stacks[stack]}.`));
  }

  length(sequence: number, stack: number): number {
    const { trace, record } = this.#place(sequence);
    return trace.lengths[stack]![record]!;
  }

  /** Reads tokens, contexts and the teacher's best `top` experts for some sequences of a stack. */
  batch(sequences: Int32Array, stack: number, top: number): TrainingBatch {
    const layers = this.layers(stack).length;
    const offsets = offsetsOf(Array.from(sequences, (sequence) => this.length(sequence, stack)));
    const tokens = offsets.at(-1)!;
    const batch: TrainingBatch = {
      tokens: new Int32Array(tokens),
      offsets,
      experts: new Uint16Array(layers * tokens * top),
      logits: new Float32Array(layers * tokens * top),
      top,
    };
    sequences.forEach((sequence, i) => {
      const { trace, record } = this.#place(sequence);
      const routed = trace.read(record, stack);
      const recorded = trace.meta.top;
      const length = routed.tokens.length;
      batch.tokens.set(routed.tokens, offsets[i]!);
      for (let layer = 0; layer < layers; layer++) {
        const from = layer * length * recorded;
        const to = (layer * tokens + offsets[i]!) * top;
        copyRows(routed.experts, from, recorded, batch.experts, to, top, length);
        copyRows(routed.logits, from, recorded, batch.logits, to, top, length);
        capUnchosen(batch.logits.subarray(to, to + length * top), top, trace.meta.topK);
      }
    });
    if (stack > 0) Object.assign(batch, this.#contexts(sequences, stack - 1));
    return batch;
  }

  close(): void {
    for (const trace of this.traces) trace.close();
  }

  /** Tokens of `stack` that each sequence attends to. */
  #contexts(sequences: Int32Array, stack: number): { contextTokens: Int32Array; contextOffsets: Int32Array } {
    const contexts = Array.from(sequences, (sequence) => {
      const { trace, record } = this.#place(sequence);
      return trace.tokens(record, stack);
    });
    const { values: contextTokens, offsets: contextOffsets } = concatenated(contexts);
    return { contextTokens, contextOffsets };
  }

  #place(sequence: number): { trace: TraceIndex; record: number } {
    let which = 0;
    while (sequence >= this.#starts[which + 1]!) which++;
    return { trace: this.traces[which]!, record: sequence - this.#starts[which]! };
  }
}

/** Copies the first `top` entries of each of `rows` rows; rows of `from` have `recorded` entries. */
function copyRows<T extends Uint16Array | Float32Array>(
  from: T,
  begin: number,
  recorded: number,
  to: T,
  at: number,
  top: number,
  rows: number,
): void {
  if (recorded === top) {
    to.set(from.subarray(begin, begin + rows * top), at);
    return;
  }
  for (let row = 0; row < rows; row++) {
    const start = begin + row * recorded;
    to.set(from.subarray(start, start + top), at + row * top);
  }
}

/**
 * Lowers logits behind the first `topK` of each row to the smallest of those. A router may choose experts that do not
 * have the largest logits. A student that learned the logits alone would then name others.
 */
function capUnchosen(logits: Float32Array, top: number, topK: number): void {
  for (let row = 0; row < logits.length; row += top) {
    const least = Math.min(...logits.subarray(row, row + topK));
    for (let i = row + topK; i < row + top; i++) logits[i] = Math.min(logits[i]!, least);
  }
}

/** Throws cannot_run if the traces of the corpora are not all of one model. */
export function checkSameModel(corpora: readonly Corpus[]): void {
  const [first, ...others] = corpora.flatMap((corpus) => corpus.traces);
  for (const other of others) {
    const [a, b] = [first!.meta, other.meta];
    if (!sameModel(a.model, b.model)) {
      throw cannotRun(
        `The traces are of different models: ${first!.directory} of ${describeModel(a.model)}, ${other.directory} of ${describeModel(b.model)}`,
      );
    }
    if (a.experts !== b.experts || a.topK !== b.topK || a.layers.join() !== b.layers.join()) {
      throw cannotRun(
        `${first!.directory} has ${a.layers.length} layers of ${a.experts} experts, ${a.topK} a token, ${other.directory} ${b.layers.length} of ${b.experts}, ${b.topK} a token, though both name ${a.model.name}`,
      );
    }
  }
}
