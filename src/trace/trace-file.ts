/** A routing trace on disk: a directory with trace.json and records.bin. */
import { closeSync, existsSync, read } from 'node:fs';
import { type FileHandle, mkdir, open, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { type OpenFile, openRegularFile } from '../files/regular-file.js';
import { writeWholeFile } from '../files/whole-file.js';
import {
  decodeRecord,
  encodeRecord,
  lengthsOfHeader,
  RECORD_HEADER_BYTES,
  recordPlaces,
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
  experts: z.number().int().positive(),
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

export type TraceMeta = z.infer<typeof metaSchema>;
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

export const TRACE_META = 'trace.json';
export const RECORDS = 'records.bin';

export function shapeOf({ stacks, layers, top }: Pick<TraceMeta, 'stacks' | 'layers' | 'top'>): TraceShape {
  const own = (name: string) => layers.filter((layer) => layer.startsWith(`${name}.`));
  return { stacks: stacks.map((name) => ({ name, layers: own(name).length })), top };
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

const readBytes = promisify(read);

/** Opens the records of a trace, which may lie on another disk. */
export function openRecords(directory: string): OpenFile {
  return openRegularFile(join(directory, RECORDS), { code: 'invalid_request' });
}

/** Reads a trace record by record, in constant memory. Stops at an incomplete last record. */
export async function* readTrace(directory: string): AsyncGenerator<TraceRecord & { end: number }> {
  const shape = shapeOf(await readMeta(directory));
  const { fd, size } = openRecords(directory);
  try {
    let window: Buffer = Buffer.alloc(0);
    let start = 0;
    const need = async (offset: number, bytes: number): Promise<Buffer | undefined> => {
      if (offset + bytes > size) return undefined;
      if (offset + bytes > start + window.length) {
        const length = Math.min(size - offset, Math.max(bytes, 8 << 20));
        window = Buffer.alloc(length);
        start = offset;
        for (let done = 0; done < length; ) {
          const { bytesRead } = await readBytes(fd, window, done, length - done, offset + done);
          if (bytesRead === 0) return undefined;
          done += bytesRead;
        }
      }
      return window.subarray(offset - start, offset - start + bytes);
    };
    for (let offset = 0; ; ) {
      const header = await need(offset, RECORD_HEADER_BYTES);
      const lengths = header && lengthsOfHeader(header, shape);
      const bytes = lengths && recordPlaces(lengths, shape).at(-1)!;
      const whole = bytes === undefined ? undefined : await need(offset, bytes);
      if (whole === undefined) return;
      offset += bytes!;
      yield { ...decodeRecord(whole, shape), end: offset };
    }
  } finally {
    closeSync(fd);
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
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const path = join(directory, RECORDS);
    let end = 0;
    let last: RecordedLine | undefined;
    if (existsSync(join(directory, TRACE_META))) {
      const { complete: __, ...earlier } = await readMeta(directory);
      if (JSON.stringify(earlier) !== JSON.stringify(meta)) {
        const message = `${directory} holds another trace: ${difference(earlier, meta)}; name another --out or remove it`;
        throw new SidaError({ code: 'cannot_run', message });
      }
      for await (const record of readTrace(directory)) {
        ({ end } = record);
        last = { line: record.line, tokens: record.stacks[0]!.tokens.subarray(0, record.input) };
      }
      await truncate(path, end);
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
