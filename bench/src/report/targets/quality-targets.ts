/** P10 to P12: what predictions hit, what is left of the answers when they route, and answers that differ. */
import { SWITCH_MINI } from '../../scenarios/models.js';
import type { BenchFile } from '../bench-file.js';
import { CANNOT_TELL, DASH, dataTitle, NOT_MEASURED, percent } from '../format.js';
import { hitsOf } from '../hits.js';
import { type NamedQuality, qualities, wayOf } from '../quality.js';
import { judged, type TargetRow, type Verdict } from './target-row.js';

const LEAST_WAY = 0.95;
/** The network of the SiDA paper, LSTM and SparseMax. */
const PAPER_NETWORK = 'lstm';

/** Of one study, which is named like `studyName`. */
function studyCommand(model: string, data: string): string {
  return `\`npm run bench -- --data DIR --only '${model}/${data}/fidelity'\``;
}

export function qualityTargets(file: BenchFile): TargetRow[] {
  const { differing, comparisons } = file;
  return [
    ...hitTargets(file),
    ...qualities(file).map(wayTarget),
    {
      target: 'P12',
      what: 'exact runs whose answers differ from the resident run’s',
      limit: '0',
      figure: `${differing.length} of ${comparisons}`,
      verdict: comparisons === 0 ? NOT_MEASURED : judged([differing.length], (value) => value === 0),
      inputs: `${comparisons} runs`,
      control: DASH,
      command: '`npm run bench -- --data DIR`',
    },
  ];
}

/** A rank that reports show, and the least hits of the paper's network there, from those of the token table. */
interface HitTarget {
  rank: number;
  least: (token: number) => number;
}

/** Halfway from the token table to 100 %. */
const TOP_ONE = [0, 2].map((rank): HitTarget => ({ rank, least: (token) => (1 + token) / 2 }));
/** recall@k and recall@2k of routers that choose several experts. */
const TOP_K: readonly HitTarget[] = [
  { rank: 0, least: (token) => token + 0.08 },
  { rank: 1, least: () => 0.92 },
];

/** By task; by text for routers that choose several experts. The others' predictors learn from tasks, not from text. */
function hitTargets({ fidelity }: BenchFile): TargetRow[] {
  const row = {
    target: 'P10',
    what: 'hash hits of the paper’s network, held-out text',
    limit: 'halfway from `token` to 100 %; recall@k: `token` + 8 points, recall@2k: ≥ 92 %',
    command: "`npm run bench -- --data DIR --only '*/fidelity'`",
  };
  const rows = fidelity.flatMap(({ model = SWITCH_MINI.name, data, hitNames, layers, inputs }) => {
    // Earlier results do not name the ranks of their hits.
    if (hitNames === undefined) return [];
    const topOne = hitNames[0] === 'top-1';
    if (topOne && data === 'text') return [];
    return (topOne ? TOP_ONE : TOP_K).flatMap(({ rank, least: leastOf }, i): TargetRow[] => {
      const hits = hitsOf(layers, PAPER_NETWORK, rank);
      const token = hitsOf(layers, 'token', rank);
      if (hits === undefined || token === undefined) return [];
      const least = leastOf(token);
      return [
        {
          ...row,
          what: `${row.what}: ${model}, ${dataTitle(data)}, ${hitNames[i]}`,
          limit: `≥ ${percent(least)}`,
          figure: percent(hits),
          verdict: judged([hits], (value) => value >= least),
          inputs: String(inputs),
          control: `token: ${percent(token)}; attention: ${percent(hitsOf(layers, 'attention', rank))}`,
          command: studyCommand(model, data),
        },
      ];
    });
  });
  if (rows.length > 0) return rows;
  return [{ ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH }];
}

function wayTarget({ model, data, what, quality, show }: NamedQuality): TargetRow {
  const { inputs, exact, predicted, random, zeros } = quality;
  const way = wayOf(quality);
  const shown = (value: number | null | undefined) => (value == null ? DASH : show(value));
  return {
    target: 'P11',
    what: `predicted mode, share of the way from experts of zeros to exact: ${model}, ${what}`,
    limit: `≥ ${percent(LEAST_WAY, 0)}`,
    figure: `${percent(way)} (predicted ${shown(predicted)}, exact ${shown(exact)})`,
    verdict: wayVerdict(way),
    inputs: inputs === undefined ? DASH : String(inputs),
    control: `random tables ${shown(random)}, experts of zeros ${shown(zeros)}`,
    command: studyCommand(model, data),
  };
}

function wayVerdict(way: number | null | undefined): Verdict {
  if (way === undefined) return NOT_MEASURED;
  return way === null ? CANNOT_TELL : judged([way], (value) => value >= LEAST_WAY);
}
