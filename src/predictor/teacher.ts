/** Reads the recorded routing of traces as training targets for hash functions. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import {
  describeModel,
  readMeta,
  readTrace,
  sameModel,
  shapeOf,
  type TraceMeta,
} from '../trace/trace-file.js';
import type { TraceRecord } from '../trace/trace-record.js';
import type { RoutingShape } from './hash-function.js';

export interface TeacherRecord extends TraceRecord {
  /** Experts recorded per token and layer. */
  top: number;
}

/** Records of one model to learn from or to evaluate on. `records` may be called several times. */
export interface TeacherSource {
  readonly shape: RoutingShape;
  /** Names of the MoE layers, stack by stack. */
  readonly layers: readonly string[];
  records(): AsyncIterable<TeacherRecord> | Iterable<TeacherRecord>;
}

/** Traces of one model, read one after the other in constant memory. */
export class Teacher implements TeacherSource {
  readonly directories: readonly string[];
  readonly metas: readonly TraceMeta[];
  readonly shape: RoutingShape;

  private constructor(directories: readonly string[], metas: readonly TraceMeta[], shape: RoutingShape) {
    this.directories = directories;
    this.metas = metas;
    this.shape = shape;
  }

  /** Throws cannot_run if a trace is incomplete or of another model than the first. */
  static async open(directories: readonly string[], vocab: number): Promise<Teacher> {
    const metas: TraceMeta[] = [];
    for (const directory of directories) {
      const meta = await readMeta(directory);
      const first = metas[0] ?? meta;
      if (!meta.complete) {
        throw cannotRun(`${directory} is incomplete; start its \`sida trace\` again to finish it`);
      }
      if (!sameModel(meta.model, first.model) || meta.layers.join() !== first.layers.join()) {
        throw cannotRun(
          `${directory} is a trace of ${describeModel(meta.model)}, ${directories[0]} of ${describeModel(first.model)}; train on traces of one model`,
        );
      }
      metas.push(meta);
    }
    const first = metas[0];
    if (first === undefined) throw cannotRun('No trace is given');
    const { experts, topK, normalized } = first;
    // The last of several stacks is a decoder that attends to the stack before it.
    const stacks = shapeOf(first).stacks.map((stack, s) => {
      return { ...stack, causal: stack.name === 'decoder', crosses: s > 0 };
    });
    return new Teacher(directories, metas, { stacks, experts, topK, normalized, vocab });
  }

  get layers(): readonly string[] {
    return this.metas[0]!.layers;
  }

  /** Throws cannot_run if a record does not fit the model or a file is damaged. */
  records(): AsyncGenerator<TeacherRecord> {
    return this.#records(() => true);
  }

  /** Only the records for which `wanted` returns true. Records are numbered over all traces. */
  only(wanted: (sequence: number) => boolean): TeacherSource {
    return { shape: this.shape, layers: this.layers, records: () => this.#records(wanted) };
  }

  async *#records(wanted: (sequence: number) => boolean): AsyncGenerator<TeacherRecord> {
    let sequence = 0;
    for (const [i, directory] of this.directories.entries()) {
      const { top } = this.metas[i]!;
      let end = 0;
      for await (const record of readTrace(directory)) {
        end = record.end;
        if (!wanted(sequence++)) continue;
        this.#check(record, directory);
        yield { ...record, top };
      }
      const { size } = await stat(join(directory, 'records.bin'));
      if (end !== size)
        throw cannotRun(`${directory} is damaged: whole records end at byte ${end} of ${size}`);
    }
  }

  #check(record: TraceRecord, directory: string): void {
    const { experts, vocab } = this.shape;
    record.stacks.forEach(({ tokens, ...routing }, s) => {
      const where = `${directory}, line ${record.line + 1}, ${this.shape.stacks[s]!.name}`;
      for (const token of tokens) {
        if (token < 0 || token >= vocab)
          throw cannotRun(`${where}: token ${token}, the vocabulary has ${vocab}`);
      }
      for (const expert of routing.experts) {
        if (expert >= experts) throw cannotRun(`${where}: expert ${expert}, a layer has ${experts}`);
      }
      for (const logit of routing.logits) {
        if (!Number.isFinite(logit)) throw cannotRun(`${where}: router logit ${logit}`);
      }
    });
  }
}

/** Returns the `k` best recorded experts of each token of a stack, (layers, tokens, k). */
export function bestExperts({ top, stacks }: TeacherRecord, stack: number, k: number): Uint16Array {
  const { experts } = stacks[stack]!;
  const best = new Uint16Array((experts.length / top) * k);
  for (let from = 0, to = 0; from < experts.length; from += top, to += k) {
    best.set(experts.subarray(from, from + k), to);
  }
  return best;
}

function cannotRun(message: string): SidaError {
  return new SidaError({ code: 'cannot_run', message });
}
