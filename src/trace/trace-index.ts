/** Random access to the records of a trace. Only their lengths and offsets are in memory. */
import { closeSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import { openRecords, RECORDS, readMeta, shapeOf, type TraceMeta } from './trace-file.js';
import {
  decodeStack,
  lengthsOfHeader,
  RECORD_HEADER_BYTES,
  recordPlaces,
  type StackRecord,
  type TraceShape,
} from './trace-record.js';

/** Reads block. A record has at most a few hundred KiB and is usually in the page cache. */
export class TraceIndex {
  readonly directory: string;
  readonly meta: TraceMeta;
  readonly shape: TraceShape;
  /** Number of tokens of each record, by stack; (stacks) of (records). */
  readonly lengths: readonly Int32Array[];
  readonly #file: number;
  /** Byte offset of each record; (records). */
  readonly #offsets: Float64Array;

  private constructor(
    directory: string,
    meta: TraceMeta,
    file: number,
    places: { offsets: number[]; lengths: number[][] },
  ) {
    this.directory = directory;
    this.meta = meta;
    this.shape = shapeOf(meta);
    this.#file = file;
    this.#offsets = Float64Array.from(places.offsets);
    this.lengths = this.shape.stacks.map((_, s) => Int32Array.from(places.lengths, (own) => own[s]!));
  }

  get records(): number {
    return this.#offsets.length;
  }

  /** Throws invalid_request when there is no trace, and cannot_run when it is incomplete or damaged. */
  static async open(directory: string): Promise<TraceIndex> {
    const meta = await readMeta(directory);
    const path = join(directory, RECORDS);
    const { fd: file, size } = openRecords(directory);
    try {
      const shape = shapeOf(meta);
      const places = { offsets: [] as number[], lengths: [] as number[][] };
      const header = Buffer.alloc(RECORD_HEADER_BYTES);
      let offset = 0;
      while (offset < size) {
        const read = readSync(file, header, 0, RECORD_HEADER_BYTES, offset);
        const lengths = lengthsOfHeader(header.subarray(0, read), shape);
        const bytes = lengths && recordPlaces(lengths, shape).at(-1)!;
        if (bytes === undefined || offset + bytes > size) break;
        places.offsets.push(offset);
        places.lengths.push(lengths!);
        offset += bytes;
      }
      if (!meta.complete) {
        throw new SidaError({
          code: 'cannot_run',
          message: `${directory} is incomplete: it holds ${places.offsets.length} records of ${meta.data} so far; start its \`sida trace\` again to finish it`,
        });
      }
      if (offset !== size) {
        throw new SidaError({
          code: 'cannot_run',
          message: `${path} is damaged: ${places.offsets.length} records end at byte ${offset} of ${size}; remove ${directory} and trace again`,
        });
      }
      return new TraceIndex(directory, meta, file, places);
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  /** Reads one stack of a record. */
  read(record: number, stack: number): StackRecord {
    const { begin, end, tokens } = this.#place(record, stack);
    const { stacks, top } = this.shape;
    return decodeStack(this.#bytes(begin, end - begin), 0, tokens, stacks[stack]!.layers, top);
  }

  /** Reads the tokens of one stack of a record, without their routing. */
  tokens(record: number, stack: number): Int32Array {
    const { begin, tokens } = this.#place(record, stack);
    return new Int32Array(this.#bytes(begin, tokens * 4));
  }

  close(): void {
    closeSync(this.#file);
  }

  #place(record: number, stack: number): { begin: number; end: number; tokens: number } {
    const lengths = this.lengths.map((own) => own[record]!);
    const places = recordPlaces(lengths, this.shape);
    const from = this.#offsets[record]!;
    return { begin: from + places[stack]!, end: from + places[stack + 1]!, tokens: lengths[stack]! };
  }

  #bytes(offset: number, length: number): ArrayBuffer {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#file, bytes, done, length - done, offset + done);
      if (read === 0) {
        throw new SidaError({
          code: 'io_error',
          message: `${join(this.directory, RECORDS)} ends at byte ${offset + done}, ${length - done} bytes early: it changed while it was read`,
        });
      }
      done += read;
    }
    return bytes.buffer;
  }
}
