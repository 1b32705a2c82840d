/** A routing trace on disk: a directory with trace.json and records.bin. */
import { closeSync, existsSync, fstatSync, readSync } from 'node:fs';
import { type FileHandle, open, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { makeDirectory } from '../files/make-directory.js';
import { type OpenFile, openRegularFile } from '../files/regular-file.js';
import { writeWholeFile } from '../files/whole-file.js';
import type { ModelShape } from '../native/addon-types.js';
import { expertsPerLayer } from '../native/model-shape.js';
import {
  decodeRecord,
  encodeRecord,
  lengthsOfHeader,
  RECORD_HEADER_BYTES,
  recordBytes,
  TRACE_STACKS,
  type TraceRecord,
  type TraceShape,
} from './trace-record.js';

const metaSchema = z.object({
  format: z.literal('sida-trace'),
  version: z.literal(1),
  /** `weights` and `tokenizer` as ModelIdentity says, and the element types of the recorded engine. */
  model: z.object({
    name: z.string(),
    weights: z.string(),
    tokenizer: z.string(),
    experts: z.string(),
    dense: z.string(),
  }),
  stacks: z
    .array(z.enum(TRACE_STACKS))
    .min(1)
    .default([...TRACE_STACKS]),
  /** Names of the MoE layers, stack by stack. */
  layers: z.array(z.string()),
  /** The most experts of any layer. */
  experts: z.number().int().positive(),
  /** Experts of each layer, where layers differ. */
  layerExperts: z.array(z.number().int().positive()).exactOptional(),
  /** Experts that a router chooses for a token. */
  topK: z.number().int().positive().default(1),
  /** Whether the top-k weights (α) are the chosen experts' probabilities divided by their sum. */
  normalized: z.boolean().default(false),
  top: z.number().int().positive(),
  data: z.string(),
  template: z.string(),
  maxNewTokens: z.number().int().nonnegative(),
  /** Fields whose values were replaced by texts of another file, with that file's name. */
  joins: z.record(z.string(), z.string()).exactOptional(),
  /** False until a run has recorded all of the data. */
  complete: z.boolean(),
});

type TraceMeta = z.infer<typeof metaSchema>;
/** Settings of a run. Absent settings get the defaults of older traces. */
export type TraceWork = Omit<z.input<typeof metaSchema>, 'complete'>;

/** Whether two traces show the same routers and tokens. Element types only change the routing a little. */
export function sameModel(a: TraceMeta['model'], b: TraceMeta['model']): boolean {
  return a.weights === b.weights && a.tokenizer === b.tokenizer;
}

/** The model for messages, such as `switch-mini (weights 1b2c…, tokenizer 3d4e…)`. */
export function describeModel({ name, weights, tokenizer }: TraceMeta['model']): string {
  return `${name} (weights ${weights.slice(0, 12)}, tokenizer ${tokenizer.slice(0, 12)})`;
}

const TRACE_META = 'trace.json';
const RECORDS = 'records.bin';

export function shapeOf({ stacks, layers, top }: Pick<TraceMeta, 'stacks' | 'layers' | 'top'>): TraceShape {
  const own = (name: string) => layers.filter((layer) => layer.startsWith(`${name}.`));
  return { stacks: stacks.map((name) => ({ name, layers: own(name).length })), top };
}

/** What a trace says of a model's routers. It records `most` experts, and no more than every layer has. */
export function routersOf(shape: ModelShape, most: number) {
  const { stacks, moeLayers, experts, topK, normalized } = shape;
  const perLayer = expertsPerLayer(shape);
  return {
    stacks: stacks.map(({ name }) => name),
    ...{ layers: moeLayers, experts, topK, normalized },
    ...(typeof perLayer !== 'number' && { layerExperts: perLayer }),
    top: Math.min(most, ...[perLayer].flat()),
  } satisfies Partial<TraceWork>;
}

export async function readMeta(directory: string): Promise<TraceMeta> {
  const meta = readJsonFile(directory, TRACE_META, metaSchema, { code: 'invalid_request' });
  if (meta !== undefined) return meta;
  throw new SidaError({
    code: 'invalid_request',
    message: `${directory} is no trace: it has no ${TRACE_META}; \`sida trace\` makes one`,
  });
}

async function writeMeta(directory: string, meta: TraceMeta): Promise<void> {
  const content = `${JSON.stringify(meta, null, 1)}\n`;
  await writeWholeFile(join(directory, TRACE_META), content, { mode: 0o600, durable: false });
}

/**
 * The records of a trace, read on demand. Only their lengths and offsets are in memory. Reads block. A record has at
 * most a few hundred KiB and is usually in the page cache.
 */
export class TraceIndex {
  readonly directory: string;
  readonly meta: TraceMeta;
  readonly shape: TraceShape;
  /** Number of tokens of each record in each stack; (records) of (stacks). */
  readonly lengths: readonly (readonly number[])[];
  readonly #file: number;
  /** Byte offset of each record, and the end of the last; (records + 1). */
  readonly #offsets: readonly number[];

  private constructor(directory: string, meta: TraceMeta, { fd, size }: OpenFile) {
    this.directory = directory;
    this.meta = meta;
    this.shape = shapeOf(meta);
    this.#file = fd;
    const lengths: number[][] = [];
    const offsets = [0];
    const header = Buffer.alloc(RECORD_HEADER_BYTES);
    for (;;) {
      const read = readSync(fd, header, 0, RECORD_HEADER_BYTES, offsets.at(-1)!);
      const own = lengthsOfHeader(header.subarray(0, read), this.shape);
      const end = own && offsets.at(-1)! + recordBytes(own, this.shape);
      if (end === undefined || end > size) break;
      lengths.push(own!);
      offsets.push(end);
    }
    this.lengths = lengths;
    this.#offsets = offsets;
  }

  /** Opens the whole records of a trace that may be incomplete. Throws invalid_request when there is no trace. */
  static async openPart(directory: string): Promise<TraceIndex> {
    const meta = await readMeta(directory);
    return new TraceIndex(
      directory,
      meta,
      openRegularFile(join(directory, RECORDS), { code: 'invalid_request' }),
    );
  }

  /** Throws invalid_request when there is no trace, and cannot_run when it is incomplete or damaged. */
  static async open(directory: string): Promise<TraceIndex> {
    const trace = await TraceIndex.openPart(directory);
    const size = fstatSync(trace.#file).size;
    if (trace.meta.complete && trace.end === size) return trace;
    trace.close();
    const message = trace.meta.complete
      ? `${join(directory, RECORDS)} is damaged: ${trace.records} records end at byte ${trace.end} of ${size}; remove ${directory} and trace again`
      : `${directory} is incomplete: it holds ${trace.records} records of ${trace.meta.data} so far; start its \`sida trace\` again to finish it`;
    throw new SidaError({ code: 'cannot_run', message });
  }

  get records(): number {
    return this.lengths.length;
  }

  /** Where the last whole record ends. */
  get end(): number {
    return this.#offsets.at(-1)!;
  }

  read(record: number): TraceRecord {
    const [begin, end] = [this.#offsets[record]!, this.#offsets[record + 1]!];
    const bytes = new Uint8Array(end - begin);
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(this.#file, bytes, done, bytes.length - done, begin + done);
      if (read === 0) {
        throw new SidaError({
          code: 'io_error',
          message: `${join(this.directory, RECORDS)} ends at byte ${begin + done}, ${bytes.length - done} bytes early: it changed while it was read`,
        });
      }
      done += read;
    }
    return decodeRecord(bytes.buffer, this.shape);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Reads the whole records of a trace one after the other. */
export async function* readTrace(directory: string): AsyncGenerator<TraceRecord> {
  const trace = await TraceIndex.openPart(directory);
  try {
    for (let record = 0; record < trace.records; record++) yield trace.read(record);
  } finally {
    trace.close();
  }
}

export interface RecordedLine {
  /** Line of the data, from 0. */
  line: number;
  /** Tokens of the line. */
  tokens: Int32Array;
}

/** Describes the settings in which two traces differ. */
function difference(before: object, now: object): string {
  const [there, here] = [before, now].map((meta) => new Map<string, unknown>(Object.entries(meta)));
  const show = (value: unknown) => JSON.stringify(value) ?? 'nothing';
  return [...new Set([...there!.keys(), ...here!.keys()])]
    .filter((name) => show(there!.get(name)) !== show(here!.get(name)))
    .map((name) => `${name} is ${show(there!.get(name))} there and ${show(here!.get(name))} here`)
    .join(', ');
}

/** Appends records. Continues an earlier run with the same settings after its last complete record. */
export class TraceWriter {
  readonly #directory: string;
  readonly #meta: TraceMeta;
  readonly #file: FileHandle;
  readonly shape: TraceShape;
  /** The last line that an earlier run recorded. */
  readonly last: RecordedLine | undefined;

  private constructor(directory: string, meta: TraceMeta, file: FileHandle, last: RecordedLine | undefined) {
    this.#directory = directory;
    this.#meta = meta;
    this.shape = shapeOf(meta);
    this.#file = file;
    this.last = last;
  }

  /** The next line of the data to record, from 0. */
  get nextLine(): number {
    return this.last === undefined ? 0 : this.last.line + 1;
  }

  static async open(directory: string, work: TraceWork): Promise<TraceWriter> {
    const { complete: _, ...meta } = metaSchema.parse({ ...work, complete: false });
    // The records hold the tokens of private texts.
    makeDirectory(directory, 0o700);
    const path = join(directory, RECORDS);
    let last: RecordedLine | undefined;
    if (existsSync(join(directory, TRACE_META))) {
      const { complete: __, ...earlier } = await readMeta(directory);
      if (JSON.stringify(earlier) !== JSON.stringify(meta)) {
        const message = `${directory} holds another trace: ${difference(earlier, meta)}; name another --out or remove it`;
        throw new SidaError({ code: 'cannot_run', message });
      }
      const trace = await TraceIndex.openPart(directory);
      const record = trace.records === 0 ? undefined : trace.read(trace.records - 1);
      last = record && { line: record.line, tokens: record.stacks[0]!.tokens.subarray(0, record.input) };
      trace.close();
      await truncate(path, trace.end);
    } else {
      await writeMeta(directory, { ...meta, complete: false });
      await writeFile(path, '', { mode: 0o600 });
    }
    return new TraceWriter(directory, { ...meta, complete: false }, await open(path, 'a'), last);
  }

  async append(records: readonly TraceRecord[]): Promise<void> {
    await this.#file.appendFile(Buffer.concat(records.map((record) => encodeRecord(record, this.shape))));
  }

  async finish(): Promise<void> {
    await this.#file.sync();
    await writeMeta(this.#directory, { ...this.#meta, complete: true });
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
