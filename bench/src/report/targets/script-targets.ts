/** P13 and P16, and the targets of decoding: what smaller measurements found, from the results of their scripts. */
import { type Interval, isTold } from '../../../../dist/evaluation/paired-difference.js';
import { CANNOT_TELL, DASH, dataTitle, NOT_MEASURED, percent } from '../format.js';
import { type DecodeResults, decodeTargets } from './decode-targets.js';
import { decodeHitsTarget, type Eviction, prefillTargets } from './eviction-target.js';
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

export interface ScriptResults extends DecodeResults {
  trainTime?: TrainTime | undefined;
  /** Of every model that was measured. */
  quantized?: readonly QuantizedAccuracy[] | undefined;
  eviction?: Eviction | undefined;
  /** Of every recorded trace. */
  replayed?: readonly Replayed[] | undefined;
}

export function scriptTargets({
  trainTime,
  quantized = [],
  replayed = [],
  eviction,
  ...decoding
}: ScriptResults): TargetRow[] {
  return [
    trainTarget(trainTime),
    ...quantizedTargets(quantized),
    replayTarget(replayed),
    decodeHitsTarget(eviction),
    ...prefillTargets(eviction),
    ...decodeTargets(decoding),
  ];
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
