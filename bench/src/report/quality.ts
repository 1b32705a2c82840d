/** The columns that every table of accuracy, fidelity or perplexity has: the figure between its controls. */
import { shareOfWay } from '../../../dist/evaluation/paired-difference.js';
import { SWITCH_MINI } from '../scenarios/models.js';
import type { FidelityData, TaskFidelity } from '../studies/task-fidelity.js';
import type { BenchFile } from './bench-file.js';
import { CANNOT_TELL, DASH, dataTitle, percent } from './format.js';

/** Absent: not measured. Null: there is none. */
export interface Quality {
  inputs?: number | undefined;
  exact: number | null;
  predicted: number | null;
  random?: number | null | undefined;
  zeros?: number | null | undefined;
  /** Whether the inputs tell exact from experts of zeros. */
  told?: boolean | undefined;
}

export const QUALITY_HEAD = [
  'inputs',
  'exact',
  'predicted',
  'random tables',
  'experts of zeros',
  'share of the way from zeros to exact',
];

export function qualityCells(quality: Quality, show: (value: number) => string): string[] {
  const { inputs, exact, predicted, random, zeros } = quality;
  return [
    inputs === undefined ? DASH : String(inputs),
    ...[exact, predicted, random, zeros].map((value) => (value == null ? DASH : show(value))),
    wayText(quality),
  ];
}

/** Undefined where the controls were not measured, null where they lie within noise. */
export function wayOf({ exact, predicted, zeros, told }: Quality): number | null | undefined {
  if (told === undefined || exact === null || predicted === null || zeros == null) return undefined;
  return shareOfWay(predicted, zeros, exact, told);
}

function wayText(quality: Quality): string {
  const way = wayOf(quality);
  return way === null ? CANNOT_TELL : percent(way);
}

/** The measure and the experts a token that the paper has for each of its tasks, and those of `words`. */
const MEASURES = {
  sst2: { key: 'accuracy', k: 1, name: 'accuracy' },
  mrpc: { key: 'f1', k: 3, name: 'F1' },
  multirc: { key: 'f1', k: 3, name: 'F1' },
  words: { key: 'accuracy', k: 1, name: 'accuracy' },
} as const;

/** The figure of a task beside its controls. */
export function taskQuality({
  data,
  inputs,
  labels,
}: TaskFidelity): (Quality & { agreement: number }) | null {
  if (!labels || data === 'text') return null;
  const { key, k } = MEASURES[data];
  const predicted = labels.predicted.find((own) => own.k === k);
  if (predicted === undefined) return null;
  return {
    inputs,
    exact: labels.exact[key],
    predicted: predicted[key],
    random: predicted.random?.[key],
    zeros: labels.zeros?.[key],
    told: labels.told,
    agreement: predicted.agreement,
  };
}

/** The figures of a text, one for each number of experts a token. */
export function textQualities({
  inputs,
  perplexity,
}: TaskFidelity): (Quality & { k: number; ratio: number | null })[] {
  return (perplexity?.predicted ?? []).map(({ k, perplexity: predicted, random, ratio }) => ({
    ...{ inputs, k, ratio, predicted, random },
    exact: perplexity!.exact,
    zeros: perplexity!.zeros,
    told: perplexity!.told,
  }));
}

export interface NamedQuality {
  model: string;
  data: FidelityData;
  /** Task or text, measure, experts a token. */
  what: string;
  quality: Quality;
  show: (value: number) => string;
}

/** Every figure of accuracy and perplexity of a result. */
export function qualities({ fidelity }: Pick<BenchFile, 'fidelity'>): NamedQuality[] {
  return fidelity.flatMap((source): NamedQuality[] => {
    const about = { model: source.model ?? SWITCH_MINI.name, data: source.data };
    const own = taskQuality(source);
    const texts = textQualities(source).map((quality) => ({
      ...about,
      what: `WikiText-2, perplexity, k = ${quality.k}`,
      quality,
      show: (value: number) => value.toFixed(2),
    }));
    if (own === null || source.data === 'text') return texts;
    return [
      { ...about, what: taskTitle(source.data), quality: own, show: (value: number) => percent(value, 2) },
    ];
  });
}

export function taskTitle(task: keyof typeof MEASURES): string {
  return `${dataTitle(task)}, ${MEASURES[task].name}, k = ${MEASURES[task].k}`;
}
