/**
 * Reads a `route_trace` CSV: comment lines with `# model=… n_expert=…` and `# layer=… expert_bytes=…`, a header, then a
 * row for each expert of a token in a layer, in order of time. Rows are folded into turns as they come.
 */
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { type CsvError, parse } from 'csv-parse';
import { SidaError } from '../../../dist/errors.js';
import {
  PHASES,
  type RecordedBatch,
  type RecordedPass,
  type RoutingTrace,
  type TraceReading,
} from './routing-trace.js';

/** Columns that a replay needs. Others are allowed. */
const NEEDED = ['turn', 'phase', 'step', 'layer', 'expert'] as const;
const BYTES = 'expert_bytes';
type Column = (typeof NEEDED)[number] | typeof BYTES;
type Row = Record<(typeof NEEDED)[number], number>;

/** Longest line, so that a file that is not text cannot fill the memory. */
const LINE_BYTES = 64 << 10;

/** Throws invalid_request naming file, line and column. */
export async function readCsvTrace(
  file: string,
  { expertBytes, onBytes }: TraceReading,
): Promise<RoutingTrace> {
  const { size, zipped } = await inspect(file);
  const reader = new RowReader(file);
  const parser = parse({
    bom: true,
    max_record_size: LINE_BYTES,
    // Comments may hold anything, and a wrong number of columns gets our own message.
    relax_quotes: true,
    relax_column_count: true,
    skip_empty_lines: true,
    on_record: (record: string[], { lines }) => {
      reader.take(record, lines);
      return null;
    },
  });
  let done = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _, next) {
      done += chunk.length;
      onBytes?.(done, size);
      next(null, chunk);
    },
  });
  try {
    await pipeline([createReadStream(file), counted, ...(zipped ? [createGunzip()] : []), parser.resume()]);
  } catch (error) {
    if (error instanceof SidaError) throw error;
    const { code, message } = error as CsvError;
    const tooLong = code === 'CSV_MAX_RECORD_SIZE';
    throw reader.wrong(
      tooLong ? `expected lines of at most ${LINE_BYTES} bytes, found a longer one` : message,
    );
  }
  return reader.result(expertBytes);
}

async function inspect(path: string): Promise<{ size: number; zipped: boolean }> {
  try {
    const file = await open(path);
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
      const zipped = bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b;
      return { size: (await file.stat()).size, zipped };
    } finally {
      await file.close();
    }
  } catch (error) {
    const message = `Cannot read the trace ${path}: ${(error as Error).message}`;
    throw new SidaError({ code: 'invalid_request', message }, { cause: error });
  }
}

/** A layer's turn while its rows are read. */
interface OpenVisit {
  layer: number;
  /** Experts, with the number of rows that name each. */
  experts: Map<number, number>;
}

class RowReader {
  readonly #file: string;
  #line = 0;
  #places: Map<Column, number> | undefined;
  #columns = 0;
  #model: string | null = null;
  /** Experts of a layer according to the comments. */
  #declared: number | undefined;
  readonly #bytes = new Map<number, number>();
  readonly #layers = new Set<number>();
  #largest = 0;
  #last: Row | undefined;
  #steps = new Set<number>();
  #visits: OpenVisit[] = [];
  /** Ids are indices inside the layer until all layers are known. */
  readonly #passes: { phase: number; tokens: number; visits: OpenVisit[] }[] = [];

  constructor(file: string) {
    this.#file = file;
  }

  take(record: readonly string[], line: number): void {
    this.#line = line;
    if (record[0]!.startsWith('#')) this.#comment(record.join());
    else if (this.#places === undefined) this.#head(record);
    else this.#row(record);
  }

  wrong(what: string, column?: string): SidaError {
    const at = [this.#file, `line ${this.#line}`, ...(column === undefined ? [] : [`column ${column}`])];
    return new SidaError({ code: 'invalid_request', message: `${at.join(', ')}: ${what}` });
  }

  #comment(text: string): void {
    const number = (name: string) => {
      const value = new RegExp(`\\s${name}=(\\S*)`).exec(text)?.[1];
      if (value === undefined) return undefined;
      if (/^\d{1,15}$/.test(value)) return Number(value);
      throw this.wrong(`expected a whole number as ${name}, found ${JSON.stringify(value)}`);
    };
    this.#model = /\bmodel=(?:.*[/\\])?(\S+)/.exec(text)?.[1] ?? this.#model;
    this.#declared = number('n_expert') ?? this.#declared;
    const [layer, bytes] = [number('layer'), number(BYTES)];
    if (layer !== undefined && bytes !== undefined && bytes > 0) {
      this.#bytes.set(layer, bytes);
      this.#layers.add(layer);
    }
  }

  #head(record: readonly string[]): void {
    const names = record.map((name) => name.trim());
    const missing = NEEDED.filter((name) => !names.includes(name));
    if (missing.length > 0) {
      throw this.wrong(
        `expected a header with the columns ${NEEDED.join(', ')}, found ${JSON.stringify(names.join())}; ${missing.join(', ')} missing`,
      );
    }
    this.#columns = names.length;
    const columns: Column[] = names.includes(BYTES) ? [...NEEDED, BYTES] : [...NEEDED];
    this.#places = new Map(columns.map((name) => [name, names.indexOf(name)]));
  }

  #row(record: readonly string[]): void {
    if (record.length !== this.#columns) {
      throw this.wrong(`expected ${this.#columns} columns, found ${record.length}`);
    }
    const row: Row = {
      turn: this.#number(record, 'turn'),
      phase: this.#number(record, 'phase'),
      step: this.#number(record, 'step'),
      layer: this.#number(record, 'layer'),
      expert: this.#number(record, 'expert'),
    };
    if (row.phase > 1) throw this.wrong(`expected 0 (prefill) or 1 (decode), found ${row.phase}`, 'phase');
    if (row.expert >= (this.#declared ?? 65_536)) {
      throw this.wrong(
        `expected less than the ${this.#declared ?? 65_536} experts of a layer, found ${row.expert}`,
        'expert',
      );
    }
    if (this.#places!.has(BYTES)) {
      const bytes = this.#number(record, BYTES);
      // A row of a resident expert has 0 bytes.
      if (bytes > 0 && !this.#bytes.has(row.layer)) this.#bytes.set(row.layer, bytes);
    }
    if (this.#beginsPass(row)) this.#endPass();
    this.#last = row;
    this.#layers.add(row.layer);
    this.#largest = Math.max(this.#largest, row.expert);
    this.#steps.add(row.step);
    const visit = this.#visits.at(-1);
    if (visit?.layer !== row.layer) {
      this.#visits.push({ layer: row.layer, experts: new Map([[row.expert, 1]]) });
    } else visit.experts.set(row.expert, (visit.experts.get(row.expert) ?? 0) + 1);
  }

  #number(record: readonly string[], name: Column): number {
    const text = record[this.#places!.get(name)!]!.trim();
    if (/^\d{1,15}$/.test(text)) return Number(text);
    throw this.wrong(`expected a whole number, found ${JSON.stringify(text)}`, name);
  }

  /** A prompt's rows go layer by layer over all its tokens, a generation's step by step. */
  #beginsPass({ turn, phase, step, layer }: Row): boolean {
    const last = this.#last;
    if (last === undefined) return false;
    if (turn < last.turn) throw this.wrong(`expected ${last.turn} or later, found ${turn}`, 'turn');
    if (turn > last.turn || phase !== last.phase) return true;
    if (phase === 0) return layer < last.layer;
    if (step < last.step) throw this.wrong(`expected ${last.step} or later, found ${step}`, 'step');
    if (step > last.step) return true;
    if (layer >= last.layer) return false;
    throw this.wrong(
      `expected ${last.layer} or a later layer in step ${step}, found ${layer}: rows are read in order of time`,
      'layer',
    );
  }

  #endPass(): void {
    this.#passes.push({ phase: this.#last!.phase, tokens: this.#steps.size, visits: this.#visits });
    this.#visits = [];
    this.#steps = new Set();
  }

  result(expertBytes: number | undefined): RoutingTrace {
    if (this.#last === undefined) throw this.wrong('expected rows of routed experts, found none');
    this.#endPass();
    const layers = [...this.#layers].sort((a, b) => a - b);
    const experts = this.#declared ?? this.#largest + 1;
    const place = new Map(layers.map((layer, i) => [layer, i]));
    const batches = this.#passes.map(({ phase, tokens, visits }): RecordedBatch => {
      const rows = visits.map(({ experts: own }) => [...own].sort(([a], [b]) => a - b));
      const pass: RecordedPass = {
        phase: PHASES[phase]!,
        tokens,
        visits: rows.map((row, turn) =>
          row.map(([index]) => place.get(visits[turn]!.layer)! * experts + index),
        ),
        choices: rows.map((row) => row.map(([, times]) => times)),
      };
      return { passes: [pass] };
    });
    return {
      name: this.#file,
      model: this.#model,
      layers: layers.map(String),
      experts,
      expertBytes: layers.map((layer) => this.#bytes.get(layer) ?? expertBytes ?? this.#unknownBytes(layer)),
      batches,
    };
  }

  #unknownBytes(layer: number): never {
    throw new SidaError({
      code: 'invalid_request',
      message: `${this.#file}: no row and no comment tells the ${BYTES} of layer ${layer}; give --expert-bytes`,
    });
  }
}
