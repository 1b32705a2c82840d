// The tables of bench/scripts/element-types/quantized-accuracy.mjs.
import { toldFromZeros } from '../../dist/report/targets/script-targets.js';
import { result, source, table } from '../table-format.mjs';

const typeName = ({ dtype, group }) => (group === undefined ? dtype : `${dtype}, groups of ${group}`);
const percent = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;
const points = (run, reference) => {
  const change = 100 * (run.accuracy - reference.accuracy);
  return `${change < 0 ? '−' : change > 0 ? '+' : ''}${Math.abs(change).toFixed(2)}`;
};
const experts = (run) => (run.control === undefined ? typeName(run.experts) : `control: ${run.control}`);

/** One row a run: what it is, how large, and `cells`. */
function rowsOf(r, runs, cells) {
  const [reference] = r.runs;
  return runs.map((run) => [
    experts(run),
    run.dense.dtype,
    run.activations,
    `${(run.expertBlockBytes / 1024).toFixed(0)} KiB`,
    ...cells(run, reference),
  ]);
}

const CONTROLS = ['experts of zeros', 'random tables'];

/** A row of dashes for each control that the result lacks. */
function unmeasuredControls(r, cells) {
  const measured = r.runs.map(({ control }) => control);
  return CONTROLS.filter((control) => !measured.includes(control)).map((control) => [
    `control: ${control}`,
    ...Array(HEAD.length - 1 + cells).fill('–'),
  ]);
}

/** What the control says of SST-2's accuracy. */
function toldText(r) {
  const zeros = r.runs.find(({ control }) => control === 'experts of zeros');
  if (zeros === undefined)
    return 'Without experts of zeros nobody can tell what accuracy says of the experts.';
  const told = toldFromZeros(r.runs[0].tasks.sst2, zeros.tasks.sst2);
  return told
    ? 'SST-2 tells f32 from experts of zeros.'
    : 'SST-2 cannot tell: f32 and experts of zeros lie within noise (95 % interval of the paired difference).';
}

const HEAD = ['experts', 'dense weights', 'activations', 'one expert'];

export const quantizedTables = {
  'quantized-card': () => {
    const r = result('quantized-accuracy');
    const rows = rowsOf(r, r.runs, ({ tasks: { sst2 } }, { tasks }) => [
      percent(sst2.accuracy),
      points(sst2, tasks.sst2),
      `${sst2.flipped} of ${sst2.inputs}`,
    ]);
    const all = [...rows, ...unmeasuredControls(r, 3)];
    return `${table([...HEAD, 'SST-2 accuracy', 'points against f32', 'answers that differ'], all)}\n\n${toldText(r)}\n\n${source(r)}`;
  },
  'quantized-accuracy': () => {
    const r = result('quantized-accuracy');
    const rows = rowsOf(r, r.runs, ({ tasks: { sst2, mrpc, multirc, wikitext2 } }, { tasks }) => [
      `${percent(sst2.accuracy)} (${points(sst2, tasks.sst2)})`,
      `${sst2.flipped}, ${mrpc.flipped}, ${multirc.flipped}`,
      Math.max(sst2.largestDifference, mrpc.largestDifference, multirc.largestDifference).toFixed(4),
      `${wikitext2.perplexity.toFixed(2)} (${(wikitext2.perplexity / tasks.wikitext2.perplexity).toFixed(4)}×)`,
    ]);
    const { sst2, mrpc, multirc } = r.runs[0].tasks;
    const head = [
      ...HEAD,
      'SST-2 accuracy (points against f32)',
      `answers that differ: SST-2 of ${sst2.inputs}, MRPC of ${mrpc.inputs}, MultiRC of ${multirc.inputs}`,
      "largest change of a label's log-probability",
      'perplexity on WikiText-2 (against f32)',
    ];
    return `${table(head, [...rows, ...unmeasuredControls(r, 4)])}\n\n${toldText(r)}\n\n${source(r)}`;
  },
};
