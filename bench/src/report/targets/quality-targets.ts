/** P10 to P12: what predictions hit, what is left of the answers when they route, and answers that differ. */
import type { BenchFile } from '../bench-file.js';
import { CANNOT_TELL, DASH, dataTitle, NOT_MEASURED, percent } from '../format.js';
import { hitsOf } from '../hits.js';
import { type NamedQuality, qualities, wayOf } from '../quality.js';
import { judged, type TargetRow, type Verdict } from './target-row.js';

const LEAST_WAY = 0.95;
/** The network of the SiDA paper, LSTM and SparseMax. */
const PAPER_NETWORK = 'lstm';

const STUDY = "`npm run bench -- --data DIR --only '*/fidelity'`";

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

/** Halfway from the token table to 100 %, by task. */
function hitTargets({ fidelity }: BenchFile): TargetRow[] {
  const row: Omit<TargetRow, 'what' | 'figure' | 'verdict' | 'inputs' | 'control'> = {
    target: 'P10',
    limit: 'halfway from `token` to 100 %',
    command: STUDY,
  };
  const what = 'hash hits of the paper’s network, held-out text';
  // Earlier results do not name the ranks of their hits.
  const sources = fidelity.filter(({ data, hitNames }) => data !== 'text' && hitNames?.[0] === 'top-1');
  const rows = sources.flatMap(({ model, data, layers, inputs }) =>
    [0, 2].flatMap((rank): TargetRow[] => {
      const hits = hitsOf(layers, PAPER_NETWORK, rank);
      const token = hitsOf(layers, 'token', rank);
      if (hits === undefined || token === undefined) return [];
      return [
        {
          ...row,
          what: `${what}: ${model ?? 'switch-mini'}, ${dataTitle(data)}, top-${rank + 1}`,
          limit: `≥ ${percent((1 + token) / 2)}`,
          figure: percent(hits),
          verdict: judged([hits], (value) => value >= (1 + token) / 2),
          inputs: String(inputs),
          control: `token: ${percent(token)}`,
        },
      ];
    }),
  );
  if (rows.length > 0) return rows;
  return [{ ...row, what, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH }];
}

function wayTarget({ model, what, quality, show }: NamedQuality): TargetRow {
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
    command: STUDY,
  };
}

function wayVerdict(way: number | null | undefined): Verdict {
  if (way === undefined) return NOT_MEASURED;
  return way === null ? CANNOT_TELL : judged([way], (value) => value >= LEAST_WAY);
}
