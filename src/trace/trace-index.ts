/** Random access to the records of a trace, of which only lengths and places are kept in memory. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import { RECORDS, readMeta, shapeOf, type TraceMeta } from './trace-file.js';
import {
  bytesOfHeader,
  decodeSide,
  RECORD_HEADER_BYTES,
  sideBytes,
  type TraceShape,
  type TraceSide,
} from './trace-record.js';

export type Stack = 'encoder' | 'decoder';

/** Reads block: a record is at most a few hundred KiB, and mostly in the page cache. */
export class TraceIndex {
  readonly directory: string;
  readonly meta: TraceMeta;
  readonly shape: TraceShape;
  /** Tokens of each record's sides; (records). */
  readonly lengths: Record<Stack, Int32Array>;
  readonly #file: number;
  /** Where each record begins, in bytes; (records). */
  readonly #offsets: Float64Array;

  private constructor(
    directory: string,
    meta: TraceMeta,
    file: number,
    places: { offsets: number[]; encoder: number[]; decoder: number[] },
  ) {
    this.directory = directory;
    this.meta = meta;
    this.shape = shapeOf(meta);
    this.#file = file;
    this.#offsets = Float64Array.from(places.offsets);
    this.lengths = { encoder: Int32Array.from(places.encoder), decoder: Int32Array.from(places.decoder) };
  }

  get records(): number {
    return this.#offsets.length;
  }

  /** Throws where there is no trace, or one that has not reached the end of its data. */
  static async open(directory: string): Promise<TraceIndex> {
    const meta = await readMeta(directory);
    const path = join(directory, RECORDS);
    const file = openSync(path, 'r');
    try {
      const { size } = fstatSync(file);
      const shape = shapeOf(meta);
      const places = { offsets: [] as number[], encoder: [] as number[], decoder: [] as number[] };
      const header = Buffer.alloc(RECORD_HEADER_BYTES);
      let offset = 0;
      while (offset < size) {
        const read = readSync(file, header, 0, RECORD_HEADER_BYTES, offset);
        const bytes = bytesOfHeader(header.subarray(0, read), shape);
        if (bytes === undefined || offset + bytes > size) break;
        places.offsets.push(offset);
        places.encoder.push(header.readUInt32LE(8));
        places.decoder.push(header.readUInt32LE(12));
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

  /** One side of a record. */
  read(record: number, stack: Stack): TraceSide {
    const { encoderLayers, decoderLayers, top } = this.shape;
    const n = this.lengths.encoder[record]!;
    const encoder = this.#offsets[record]! + RECORD_HEADER_BYTES;
    if (stack === 'encoder') {
      const bytes = this.#bytes(encoder, sideBytes(n, encoderLayers, top));
      return decodeSide(bytes, 0, n, encoderLayers, top);
    }
    const m = this.lengths.decoder[record]!;
    const begin = encoder + sideBytes(n, encoderLayers, top);
    return decodeSide(this.#bytes(begin, sideBytes(m, decoderLayers, top)), 0, m, decoderLayers, top);
  }

  /** The encoder tokens of a record, without their routing. */
  encoderTokens(record: number): Int32Array {
    const bytes = this.lengths.encoder[record]! * 4;
    return new Int32Array(this.#bytes(this.#offsets[record]! + RECORD_HEADER_BYTES, bytes));
  }

  close(): void {
    closeSync(this.#file);
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
