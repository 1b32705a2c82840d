// The tables of bench/scripts/element-types/quantized-accuracy.mjs.
import { isTold } from '../../../dist/evaluation/paired-difference.js';
import { dataTitle } from '../../dist/report/format.js';
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

/** Models with a result of their own, by what stands behind the result's name. */
export const QUANTIZED_MODELS = ['switch-mini', 'switch-words'];

/** What the control says of the task's accuracy. */
function toldText(r, task) {
  const zeros = r.runs.find(({ control }) => control === 'experts of zeros');
  if (zeros === undefined)
    return 'Without experts of zeros nobody can tell what accuracy says of the experts.';
  const told = isTold(zeros.tasks[task].lost);
  return told
    ? `Accuracy (${dataTitle(task)}) tells f32 from experts of zeros.`
    : `Accuracy (${dataTitle(task)}) cannot tell: f32 and experts of zeros lie within noise (95 % interval of the paired difference).`;
}

const HEAD = ['experts', 'dense weights', 'activations', 'one expert'];

/** Accuracy on the task of a model's card, by element type. */
function cardTable(model) {
  const r = result(`quantized-accuracy-${model}`);
  const { task = 'sst2' } = r;
  const rows = rowsOf(r, r.runs, ({ tasks }, { tasks: plain }) => [
    percent(tasks[task].accuracy),
    points(tasks[task], plain[task]),
    `${tasks[task].flipped} of ${tasks[task].inputs}`,
  ]);
  const all = [...rows, ...unmeasuredControls(r, 3)];
  const head = [...HEAD, `accuracy, ${dataTitle(task)}`, 'points against f32', 'answers that differ'];
  return `${table(head, all)}\n\n${toldText(r, task)}\n\n${source(r)}`;
}

export const quantizedTables = {
  'quantized-card': () => cardTable('switch-mini'),
  'quantized-card-words': () => cardTable('switch-words'),
  'quantized-accuracy': () => {
    const r = result('quantized-accuracy-switch-mini');
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
    return `${table(head, [...rows, ...unmeasuredControls(r, 4)])}\n\n${toldText(r, 'sst2')}\n\n${source(r)}`;
  },
};
