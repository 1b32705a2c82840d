/**
 * Reads a `route_trace` CSV, gzipped or not: comment lines with `# model=… n_expert=…` and `# layer=… expert_bytes=…`,
 * a header, then a row for each expert of a token in a layer, in order of time.
 */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { SidaError } from '../../../dist/errors.js';
import { PHASES, type RecordedBatch, type RoutingTrace, turnOf } from './routing-trace.js';

/** Columns that a replay needs. Others are allowed. */
const NEEDED = ['turn', 'phase', 'step', 'layer', 'expert'] as const;
const BYTES = 'expert_bytes';
type Row = Record<(typeof NEEDED)[number], number>;

interface OpenPass {
  phase: number;
  steps: Set<number>;
  /** Of each turn its layer, and its experts with the number of rows that name each. */
  visits: { layer: number; experts: Map<number, number> }[];
}

/** Throws invalid_request naming file and line. `expertBytes`: where the trace does not say. */
export function readCsvTrace(file: string, expertBytes?: number): RoutingTrace {
  const raw = readFileSync(file);
  const lines = (raw[0] === 0x1f && raw[1] === 0x8b ? gunzipSync(raw) : raw).toString().split(/\r?\n/);
  const wrong = (line: number, what: string) =>
    new SidaError({ code: 'invalid_request', message: `${file}, line ${line + 1}: ${what}` });
  let columns: string[] | undefined;
  let model: string | null = null;
  let declared: number | undefined;
  const bytes = new Map<number, number>();
  const passes: OpenPass[] = [];
  let last: Row | undefined;
  for (const [at, line] of lines.entries()) {
    if (line === '') continue;
    if (line.startsWith('#')) {
      const figure = (name: string) => Number(new RegExp(`\\s${name}=(\\d+)(?!\\S)`).exec(line)?.[1] ?? Number.NaN);
      model = /\bmodel=(?:.*[/\\])?(\S+)/.exec(line)?.[1] ?? model;
      declared = figure('n_expert') || declared;
      if (figure('layer') >= 0 && figure(BYTES) > 0) bytes.set(figure('layer'), figure(BYTES));
      continue;
    }
    const cells = line.split(',');
    if (columns === undefined) {
      columns = cells.map((name) => name.trim());
      if (NEEDED.every((name) => columns!.includes(name))) continue;
      throw wrong(at, `expected a header with the columns ${NEEDED.join(', ')}, found ${JSON.stringify(line)}`);
    }
    const value = (name: string): number => {
      const text = cells[columns!.indexOf(name)]?.trim() ?? '';
      if (/^\d{1,15}$/.test(text)) return Number(text);
      throw wrong(at, `column ${name}: expected a whole number, found ${JSON.stringify(text)}`);
    };
    const row = Object.fromEntries(NEEDED.map((name) => [name, value(name)])) as Row;
    // A row of a resident expert has 0 bytes.
    if (columns.includes(BYTES) && !bytes.has(row.layer) && value(BYTES) > 0) bytes.set(row.layer, value(BYTES));
    if (last === undefined || beginsPass(row, last)) passes.push({ phase: row.phase, steps: new Set(), visits: [] });
    add(passes.at(-1)!, row);
    last = row;
  }
  if (last === undefined) throw wrong(lines.length - 1, 'expected rows of routed experts, found none');
  const found = passes.flatMap(({ visits }) => visits);
  const layers = [...new Set([...bytes.keys(), ...found.map(({ layer }) => layer)])].sort((a, b) => a - b);
  const experts = declared ?? 1 + Math.max(...found.map(({ experts: own }) => Math.max(...own.keys())));
  return {
    model,
    layers: layers.map(String),
    experts,
    expertBytes: layers.map((layer) => {
      const own = bytes.get(layer) ?? expertBytes;
      if (own !== undefined) return own;
      throw wrong(lines.length - 1, `no row and no comment tells the ${BYTES} of layer ${layer}`);
    }),
    batches: passes.map((pass) => batchOf(pass, layers, experts)),
  };
}

/** A prompt's rows go layer by layer over all its tokens, a generation's step by step. */
function beginsPass(row: Row, last: Row): boolean {
  if (row.turn !== last.turn || row.phase !== last.phase) return true;
  return row.phase === 0 ? row.layer < last.layer : row.step !== last.step;
}

function add({ steps, visits }: OpenPass, { step, layer, expert }: Row): void {
  steps.add(step);
  if (visits.at(-1)?.layer !== layer) visits.push({ layer, experts: new Map() });
  const { experts } = visits.at(-1)!;
  experts.set(expert, (experts.get(expert) ?? 0) + 1);
}

function batchOf({ phase, steps, visits }: OpenPass, layers: readonly number[], experts: number): RecordedBatch {
  const turns = visits.map(({ layer, experts: own }) => {
    const { ids, choices } = turnOf(own);
    return { ids: ids.map((index) => layers.indexOf(layer) * experts + index), choices };
  });
  const pass = { visits: turns.map(({ ids }) => ids), choices: turns.map(({ choices }) => choices) };
  return { passes: [{ phase: PHASES[phase]!, tokens: steps.size, ...pass }] };
}
