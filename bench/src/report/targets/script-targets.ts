/** P13, P16, P17 and P20 to P23: what smaller measurements found, from the results of their scripts. */
import { type Interval, isTold } from '../../../../dist/evaluation/paired-difference.js';
import { CANNOT_TELL, DASH, dataTitle, NOT_MEASURED, percent, times } from '../format.js';
import { type Eviction, prefillTargets } from './eviction-target.js';
import { type Recorded, recorded } from './recorded.js';
import { type Replayed, replayTarget } from './replay-target.js';
import { judged, type TargetRow, type Verdict } from './target-row.js';

/** What the target table reads of bench/results/train-time.json. */
interface TrainTime extends Recorded {
  minutes: number;
  /** The network that was trained; results of before there were two have none. */
  network?: string;
  rows: { layer: string; reached: boolean[] }[];
  trainedOn: { sequences: number }[];
}

interface TypedAccuracy {
  inputs: number;
  accuracy: number;
  /** Answers that differ from the first run's. */
  flipped: number;
  /** Right answers of the first run less these, by input. Earlier results have none. */
  lost?: Interval | null;
}

/** Of bench/results/quantized-accuracy-MODEL.json. The first run is of f32. */
interface QuantizedAccuracy extends Recorded {
  /** Earlier results are of switch-mini and SST-2. */
  model?: string;
  task?: string;
  runs: {
    experts: { dtype: string; group?: number };
    dense: { dtype: string };
    activations: string;
    control?: string;
    tasks: Record<string, TypedAccuracy | { perplexity: number }>;
  }[];
}

/** Of bench/results/governor*.json: one model, a row for each budget. */
interface Governed extends Recorded {
  model: string;
  task: string;
  rows: {
    budget: string;
    requests: number;
    /** Of all servers. Earlier results are of one, and their intervals over pairs of blocks. */
    starts?: number;
    /**
     * Time over that of `--predictor none`, less 1: of the defaults, of prediction that nothing governs, and of
     * `--predictor none` in another process.
     */
    defaults: Interval;
    ungoverned: Interval;
    again: Interval;
  }[];
}

/** Of bench/results/look-ahead-link.json: a row for each budget and number of layers, 0 first and again last. */
interface LookedAhead extends Recorded {
  model: string;
  requests: number;
  rows: {
    budget: string;
    layers: number;
    /** Time over that of the budget's first row, less 1. */
    slower: Interval | null;
  }[];
}

export interface ScriptResults {
  trainTime?: TrainTime | undefined;
  lookAhead?: LookedAhead | undefined;
  /** Of every model that was measured. */
  governed?: readonly Governed[] | undefined;
  /** Of every model that was measured. */
  quantized?: readonly QuantizedAccuracy[] | undefined;
  eviction?: Eviction | undefined;
  /** Of every recorded trace. */
  replayed?: readonly Replayed[] | undefined;
}

export function scriptTargets({
  trainTime,
  quantized = [],
  governed = [],
  replayed = [],
  eviction,
  lookAhead,
}: ScriptResults): TargetRow[] {
  return [
    trainTarget(trainTime),
    ...quantizedTargets(quantized),
    governedTarget(governed),
    replayTarget(replayed),
    ...prefillTargets(eviction),
    lookAheadTarget(lookAhead),
    DRAFTS,
  ];
}

/** Nothing is left that could be measured: bench/notes/tried.md has the figures of what was deleted. */
const DRAFTS: TargetRow = {
  target: 'P23',
  what: 'time of a token with drafts from the text so far, starved of memory, where 75 % of them hold',
  limit: '≤ 0.85×',
  figure: 'built, measured and deleted: bench/notes/tried.md',
  verdict: 'missed',
  inputs: DASH,
  control: DASH,
  command: DASH,
};

function lookAheadTarget(found: LookedAhead | undefined): TargetRow {
  const row = {
    target: 'P22',
    what: 'look-ahead in decode over a simulated link of 2 GB/s, two layers named: time saved by the pairs of blocks',
    limit: '≥ 9 %',
    command: recorded(
      'node bench/scripts/look-ahead/look-ahead.mjs --model DIR --host-budget 100% --link-bandwidth 2GB/s --out look-ahead-link',
      found === undefined ? [] : [found],
    ),
  };
  if (found === undefined)
    return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
  const measured = found.rows.flatMap(({ slower, ...own }) => (slower === null ? [] : [{ ...own, slower }]));
  const shown = (layers: number) =>
    measured
      .filter((own) => own.layers === layers)
      .map(
        ({ budget, slower: { mean, low, high } }) =>
          `${budget} ${percent(-mean)} (${percent(-high)} to ${percent(-low)})`,
      )
      .join(', ');
  return {
    ...row,
    figure: `${found.model} ${shown(2)}`,
    verdict: judged(
      measured.filter(({ layers }) => layers === 2).map(({ slower }) => -slower.mean),
      (saved) => saved >= 0.09,
    ),
    inputs: String(found.requests),
    control: `without, again: ${shown(0)}`,
  };
}

function governedTarget(results: readonly Governed[]): TargetRow {
  const ofBlocks = results.some(({ rows }) => rows.some(({ starts }) => starts === undefined));
  const over = ofBlocks ? 'starts of the servers, or pairs of blocks of one start' : 'starts of the servers';
  const row = {
    target: 'P17',
    what: `time of a request with the defaults over that with \`--predictor none\`, and its 95 % interval over ${over}`,
    limit: 'interval reaches 1.00×, in every cell of a grid',
    command: recorded(
      'node bench/scripts/governor/governor.mjs --model models/switch-words --task category',
      results,
    ),
  };
  const all = results.flatMap(({ model, rows }) => rows.map((own) => ({ model, ...own })));
  if (all.length === 0) return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
  const shown = (name: 'defaults' | 'ungoverned' | 'again') =>
    all
      .map(({ model, budget, [name]: { mean, low, high } }) => {
        return `${model} ${budget} ${times(1 + mean)} (${times(1 + low)} to ${times(1 + high)})`;
      })
      .join(', ');
  return {
    ...row,
    figure: shown('defaults'),
    verdict: judged(
      all.map(({ defaults }) => defaults.low),
      (surely) => surely <= 0,
    ),
    inputs: [...new Set(all.map(({ requests }) => requests))].join(', '),
    control: `none again: ${shown('again')}; without the governor: ${shown('ungoverned')}`,
  };
}

function trainTarget(found: TrainTime | undefined): TargetRow {
  const row = {
    target: 'P13',
    what: '`sida train` to the hits of P10, 2 cores',
    limit: '≤ 10 min',
    control: DASH,
    command: recorded(
      'node bench/scripts/predictor/train-time.mjs --trace DIR --held-out DIR',
      found === undefined ? [] : [found],
    ),
  };
  if (found === undefined) return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH };
  const { minutes, network, rows, trainedOn } = found;
  const paper = network === 'lstm';
  const reached = rows.every((own) => own.reached.every(Boolean));
  const missed = rows.filter((own) => !own.reached.every(Boolean)).map(({ layer }) => layer);
  const hits = reached ? 'all hits reached' : `hits missed in ${missed.join('; ')}`;
  return {
    ...row,
    figure: `${minutes.toFixed(1)} min, ${hits}${paper ? '' : ' (another network than the paper’s)'}`,
    verdict: paper ? judged([minutes], (value) => reached && value <= 10) : NOT_MEASURED,
    inputs: trainedOn.map(({ sequences }) => String(sequences)).join(' + '),
  };
}

const ZEROS = 'experts of zeros';
const LIMITS = [
  { dtype: 'int8', least: -0.002 },
  { dtype: 'int4', least: -0.01 },
] as const;

/** What experts of zeros say of a result: whether its experts matter. */
type Told = 'told' | typeof CANNOT_TELL | typeof NOT_MEASURED;

interface JudgedAccuracy {
  model: string;
  task: string;
  runs: readonly { dtype: string; dense: string; control: string | undefined; figure: TypedAccuracy }[];
  plain: TypedAccuracy;
  told: Told;
}

function accuracyOf({ model = 'switch-mini', task = 'sst2', runs }: QuantizedAccuracy): JudgedAccuracy[] {
  const own = runs.map(({ experts, dense, control, tasks }) => ({
    ...{ dtype: experts.dtype, dense: dense.dtype, control },
    figure: tasks[task] as TypedAccuracy,
  }));
  const plain = own[0]?.figure;
  if (plain === undefined) return [];
  const zeros = own.find(({ control }) => control === ZEROS)?.figure;
  const told = zeros === undefined ? NOT_MEASURED : toldFromZeros(plain, zeros) ? 'told' : CANNOT_TELL;
  return [{ model, task, runs: own, plain, told }];
}

/** The result that says most: experts that matter, then experts that do not, then experts of which nothing is known. */
function mostTelling(results: readonly QuantizedAccuracy[]): JudgedAccuracy | undefined {
  const order: Told[] = ['told', CANNOT_TELL, NOT_MEASURED];
  return results.flatMap(accuracyOf).toSorted((a, b) => order.indexOf(a.told) - order.indexOf(b.told))[0];
}

function quantizedTargets(results: readonly QuantizedAccuracy[]): TargetRow[] {
  const found = mostTelling(results);
  const command = recorded(
    'node bench/scripts/element-types/quantized-accuracy.mjs --model models/switch-words --task category',
    results.filter(({ model = 'switch-mini' }) => model === found?.model),
  );
  return LIMITS.map(({ dtype, least }): TargetRow => {
    const row = {
      target: 'P16',
      what: `accuracy of ${dtype} experts less that of f32, a model whose experts matter`,
      limit: `≥ −${(-100 * least).toFixed(1)} points`,
      command,
    };
    const own = found?.runs.filter(
      (run) => run.dtype === dtype && run.dense === 'bf16' && run.control === undefined,
    );
    if (found === undefined || own === undefined || own.length === 0) {
      return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
    }
    const { model, task, plain, told, runs } = found;
    const worst = Math.min(...own.map(({ figure }) => figure.accuracy - plain.accuracy));
    const controls = runs.flatMap(({ control, figure }) =>
      control === undefined ? [] : [`${control} ${percent(figure.accuracy, 2)}`],
    );
    const verdict: Verdict = told === 'told' ? judged([worst], (value) => value >= least) : told;
    return {
      ...row,
      figure: `${points(worst)} points at worst of ${own.length} (${model}, ${dataTitle(task)}, f32 ${percent(plain.accuracy, 2)})`,
      verdict,
      inputs: String(plain.inputs),
      control: controls.length === 0 ? DASH : controls.join(', '),
    };
  });
}

function points(change: number): string {
  return `${change < 0 ? '−' : '+'}${Math.abs(100 * change).toFixed(2)}`;
}

/**
 * Whether the inputs tell the model from one with experts of zeros. Without the interval of the paired difference it
 * follows from the counts, for two labels: every answer that differs makes one of both right.
 */
export function toldFromZeros(plain: TypedAccuracy, zeros: TypedAccuracy): boolean {
  if (zeros.lost !== undefined) return isTold(zeros.lost);
  const { inputs, flipped } = zeros;
  const mean = plain.accuracy - zeros.accuracy;
  const half = 1.96 * Math.sqrt((flipped / inputs - mean ** 2) / (inputs - 1));
  return isTold({ mean, low: mean - half, high: mean + half });
}
