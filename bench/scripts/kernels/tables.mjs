// Tables of bench/notes/kernels.md, from bench/results/kernels.json, kernels-amx.json and kernel-sets.json.
import { wrapped } from '../../../dist/text/wrapped.js';
import { hasResult, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(0)} %`;
const giga = (value) => (value / 1e9).toFixed(0);

function limits(r) {
  return r.runs.map((run) => {
    const amx = run.amxBf16PerSecond > 0;
    const tiles = `, AMX ${giga(run.amxBf16PerSecond)} GFLOP/s and ${giga(run.amxInt8PerSecond)} GOP/s`;
    return (
      `${run.threads} thread${run.threads > 1 ? 's' : ''}: reads ${(run.readBytesPerSecond / 1e9).toFixed(1)} GB/s, ` +
      `f32 FMA ${giga(run.fmaPerSecond)} GFLOP/s, VNNI ${giga(run.vnniPerSecond)} GOP/s${amx ? tiles : ''}`
    );
  });
}

/** A line for each format and kind of activations, a column for each number of rows. */
function shares(run, rows, share) {
  const kinds = new Map(run.cases.map((c) => [`${c.format} × ${c.activations}`, c]));
  return [...kinds].map(([name, { format, activations }]) => [
    name,
    ...rows.map((n) => {
      const found = run.cases.find(
        (c) => c.format === format && c.activations === activations && c.rows === n,
      );
      return percent(found[share(found)]);
    }),
  ]);
}

const TARGETS = { f32: '≥ 85 %', bf16: '≥ 85 %', int8: '≥ 85 %', int4: '≥ 70 %' };

/** Types with integer products. */
const INTEGER = ['int8', 'int4', 'mxfp4', 'q8_0', 'q4_0', 'q4_k', 'q6_k'];

/** Products of two sets of kernels, the second beside the first, with as many rows as tiles may serve. */
function sets() {
  const r = result('kernel-sets');
  const many = [16, 32, 64, 256];
  const kinds = [...INTEGER.map((format) => [format, 'int8']), ['bf16', 'bf16']];
  const at = (run, [format, activations], rows) =>
    run.cases.find((c) => c.format === format && c.activations === activations && c.rows === rows)
      ?.operationsPerSecond;
  const lines = [1, 2].flatMap((threads) => {
    const [first, second] = r.runs.filter((run) => run.threads === threads);
    const measured = kinds.filter((kind) => at(first, kind, many[0]) !== undefined);
    return measured.map((kind) => [
      kind.join(' × '),
      threads,
      ...many.map((rows) => {
        const [one, other] = [first, second].map((run) => at(run, kind, rows));
        return `${giga(one)}, ${giga(other)}, ${(other / one).toFixed(2)} ×`;
      }),
    ]);
  });
  const head = ['weights × activations', 'threads', ...many.map((n) => `${n} rows: ${r.isa} (GOP/s), ratio`)];
  return `${table(head, lines)}\n\n${source(r)}`;
}

/** A table for each kind of processor that was measured. */
const eachProcessor = (tableOf) =>
  ['kernels', 'kernels-amx']
    .filter(hasResult)
    .map((name) => tableOf(result(name)))
    .join('\n\n');

function read(r) {
  const few = [1, 2, 3, 4, 8];
  const lines = r.runs.flatMap((run) =>
    shares(run, few, () => 'ofRead').map(([name, ...cells]) => [
      name,
      run.threads,
      ...cells,
      TARGETS[name.split(' ')[0]],
    ]),
  );
  const rows = few.map((n) => (n === 1 ? '1 row' : `${n} rows`));
  const head = ['weights × activations', 'threads', ...rows, 'target at 1 to 4'];
  return `${table(head, lines)}\n\n${wrapped(`${limits(r).join('; ')}.`, 118).join('\n')}  \n${source(r)}`;
}

/** The unit that a product is compared with, and its share of that. */
function bestUnit({ format, activations }, amx) {
  if (amx && activations !== 'f32')
    return { unit: 'AMX', share: 'ofAmx', target: activations === format ? '≥ 60 %' : '' };
  if (activations === 'int8') return { unit: 'VNNI', share: 'ofVnni', target: '' };
  return { unit: 'f32 FMA', share: 'ofFma', target: !amx && format === 'f32' ? '≥ 85 %' : '' };
}

function compute(r) {
  const many = [16, 64, 256];
  const amx = r.isa.includes('amx');
  const lines = r.runs.flatMap((run) =>
    shares(run, many, (c) => bestUnit(c, amx).share).map(([name, ...cells]) => {
      const [format, activations] = name.split(' × ');
      const { unit, target } = bestUnit({ format, activations }, amx);
      return [name, run.threads, unit, ...cells, target];
    }),
  );
  const head = [
    'weights × activations',
    'threads',
    'peak',
    ...many.map((n) => `${n} rows`),
    'target from 64',
  ];
  return `${table(head, lines)}\n\n${source(r)}`;
}

export const kernelTables = {
  'kernel-sets': sets,
  'kernels-read': () => eachProcessor(read),
  'kernels-compute': () => eachProcessor(compute),
};
