/** The sequences of several traces of one model, read from their files on demand. */
import { SidaError } from '../../errors.js';
import type { TrainingBatch } from '../../native/addon-types.js';
import { firstExpertsOf } from '../../native/model-shape.js';
import { concatenated, offsetsOf } from '../../ragged.js';
import { describeModel, sameModel, shapeOf, TraceIndex } from '../../trace/trace-file.js';
import type { TraceRecord } from '../../trace/trace-record.js';
import { expertsOfStack, type RoutingShape } from '../hash-function.js';

export function cannotRun(message: string): SidaError {
  return new SidaError({ code: 'cannot_run', message });
}

export interface TeacherRecord extends TraceRecord {
  /** Experts recorded per token and layer. */
  top: number;
}

export class Corpus {
  readonly traces: readonly TraceIndex[];
  readonly shape: RoutingShape;
  /** (traces + 1), number of each trace's first sequence, then the number of all sequences. */
  readonly starts: readonly number[];

  private constructor(traces: readonly TraceIndex[], vocab: number) {
    const { meta } = traces[0]!;
    this.traces = traces;
    // The last of several stacks is a decoder that attends to the stack before it.
    const stacks = shapeOf(meta).stacks.map((stack, s) => {
      return { ...stack, causal: stack.name === 'decoder', crosses: s > 0 };
    });
    const { experts, topK, normalized } = meta;
    const firstExperts = firstExpertsOf(meta.layerExperts ?? experts, meta.layers.length);
    this.shape = { stacks, experts, firstExperts, topK, normalized, vocab };
    const starts = [0];
    for (const trace of traces) starts.push(starts.at(-1)! + trace.records);
    this.starts = starts;
  }

  /** Throws if a trace is missing, incomplete, empty or of another model than the first. */
  static async open(directories: readonly string[], vocab: number): Promise<Corpus> {
    const traces: TraceIndex[] = [];
    try {
      for (const directory of directories) {
        const trace = await TraceIndex.open(directory);
        traces.push(trace);
        if (trace.records === 0) throw cannotRun(`There are no records in ${directory}`);
        checkSameModel(traces[0]!, trace);
      }
      return new Corpus(traces, vocab);
    } catch (error) {
      for (const trace of traces) trace.close();
      throw error;
    }
  }

  /** Experts per token that every trace has recorded. */
  get top(): number {
    return Math.min(...this.traces.map(({ meta }) => meta.top));
  }

  length(sequence: number, stack: number): number {
    const { trace, record } = this.#place(sequence);
    return trace.lengths[record]![stack]!;
  }

  /** Throws cannot_run if the record does not fit the model. */
  record(sequence: number): TeacherRecord {
    const record = this.#read(sequence);
    this.#check(record, this.#place(sequence).trace.directory);
    return record;
  }

  /** Tokens, contexts and the teacher's best `top` experts for some sequences of a stack. The addon checks them. */
  batch(sequences: Int32Array, stack: number, top: number): TrainingBatch {
    const records = Array.from(sequences, (sequence) => this.#read(sequence));
    const { layers, crosses } = this.shape.stacks[stack]!;
    const offsets = offsetsOf(records.map(({ stacks }) => stacks[stack]!.tokens.length));
    const tokens = offsets.at(-1)!;
    const batch: TrainingBatch = {
      tokens: new Int32Array(tokens),
      offsets,
      experts: new Uint16Array(layers * tokens * top),
      logits: new Float32Array(layers * tokens * top),
      top,
    };
    records.forEach((record, i) => {
      const own = record.stacks[stack]!;
      batch.tokens.set(own.tokens, offsets[i]!);
      for (let row = 0; row < layers * own.tokens.length; row++) {
        const layer = Math.floor(row / own.tokens.length);
        const to = layer * tokens + offsets[i]! + (row - layer * own.tokens.length);
        this.#copyRow(own, row * record.top, batch, to * top);
      }
    });
    if (crosses) {
      const context = concatenated(records.map(({ stacks }) => stacks[stack - 1]!.tokens));
      Object.assign(batch, { contextTokens: context.values, contextOffsets: context.offsets });
    }
    return batch;
  }

  close(): void {
    for (const trace of this.traces) trace.close();
  }

  /**
   * Logits behind the first topK of a row become at most the smallest of those. A router may choose experts that do not
   * have the largest logits. A student that learned the logits alone would then name others.
   */
  #copyRow(
    from: Pick<TrainingBatch, 'experts' | 'logits'>,
    row: number,
    to: TrainingBatch,
    toRow: number,
  ): void {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < to.top; i++) {
      const logit = from.logits[row + i]!;
      if (i < this.shape.topK) least = Math.min(least, logit);
      to.experts[toRow + i] = from.experts[row + i]!;
      to.logits[toRow + i] = i < this.shape.topK ? logit : Math.min(logit, least);
    }
  }

  #read(sequence: number): TeacherRecord {
    const { trace, record } = this.#place(sequence);
    return { ...trace.read(record), top: trace.meta.top };
  }

  #place(sequence: number): { trace: TraceIndex; record: number } {
    const which = this.starts.findLastIndex((start) => start <= sequence);
    return { trace: this.traces[which]!, record: sequence - this.starts[which]! };
  }

  #check({ line, stacks }: TraceRecord, directory: string): void {
    const { vocab } = this.shape;
    stacks.forEach((stack, s) => {
      const experts = expertsOfStack(this.shape, s);
      const expertsAt = (entry: number) =>
        experts[Math.floor((entry * experts.length) / stack.experts.length)]!;
      const token = stack.tokens.find((id) => id < 0 || id >= vocab);
      const at = stack.experts.findIndex((id, entry) => id >= expertsAt(entry));
      const logit = stack.logits.find((value) => !Number.isFinite(value));
      const wrong =
        (token !== undefined && `token ${token}, the vocabulary has ${vocab}`) ||
        (at >= 0 && `expert ${stack.experts[at]}, a layer has ${expertsAt(at)}`) ||
        (logit !== undefined && `router logit ${logit}`);
      if (wrong) throw cannotRun(`${directory}, line ${line + 1}, ${this.shape.stacks[s]!.name}: ${wrong}`);
    });
  }
}

function checkSameModel(first: TraceIndex, other: TraceIndex): void {
  const [a, b] = [first.meta, other.meta];
  if (!sameModel(a.model, b.model)) {
    throw cannotRun(
      `The traces are of different models: ${first.directory} of ${describeModel(a.model)}, ${other.directory} of ${describeModel(b.model)}`,
    );
  }
  const expertsIn = ({ experts, layerExperts }: typeof a) => [experts, ...(layerExperts ?? [])].join();
  if (expertsIn(a) !== expertsIn(b) || a.topK !== b.topK || a.layers.join() !== b.layers.join()) {
    throw cannotRun(
      `${first.directory} and ${other.directory} name the same model, but not the same layers and experts`,
    );
  }
}
