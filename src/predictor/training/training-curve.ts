/** curve.svg: loss and hit rates over the steps of each network. */
import type { TopLevelSpec } from 'vega-lite';
import { renderSvg } from '../../chart/svg.js';
import { hitNames } from '../hit-ranks.js';
import type { Measures } from './measures.js';
import type { Evaluation } from './network-state.js';

interface Point {
  step: number;
  series: string;
  value: number;
}

const WIDTH = 420;
const HEIGHT = 230;

function lossPoints({ step, train, heldOut }: Evaluation): Point[] {
  return [
    { step, series: 'held out', value: heldOut.loss },
    ...(train ? [{ step, series: 'training', value: train.loss }] : []),
  ];
}

function hitPoints({ step, train, heldOut }: Evaluation, [first, last]: [string, string]): Point[] {
  const points = ({ hits }: Measures, name: string) => [
    { step, series: `${first}, ${name}`, value: 100 * hits[0]! },
    { step, series: `${last}, ${name}`, value: 100 * hits.at(-1)! },
  ];
  return [...points(heldOut, 'held out'), ...(train ? points(train, 'training') : [])];
}

function panel(title: string, unit: string, values: Point[], order: string[], zero: boolean) {
  return {
    title,
    width: WIDTH,
    height: HEIGHT,
    data: { values },
    mark: { type: 'line' as const, point: { size: 22 } },
    encoding: {
      x: { field: 'step', type: 'quantitative' as const, title: 'optimizer steps' },
      y: { field: 'value', type: 'quantitative' as const, title: unit, scale: { zero } },
      color: { field: 'series', type: 'nominal' as const, title: null, sort: order },
    },
  };
}

/** A row of two panels for each network that was measured. */
export function trainingCurve(evaluations: readonly Evaluation[], topK: number): Promise<string> {
  const networks = [...new Set(evaluations.map(({ network }) => network))];
  const names = hitNames(topK);
  const [first, last] = names;
  const rows = networks.map((stack) => {
    const own = evaluations.filter(({ network }) => network === stack);
    const losses = own.flatMap(lossPoints);
    const hits = own.flatMap((evaluation) => hitPoints(evaluation, names));
    const [loss, rate] = [
      panel(`${stack}: loss`, 'per token and layer', losses, ['held out', 'training'], false),
      panel(
        `${stack}: hit rate, mean over layers`,
        topK === 1 ? '% of tokens' : '% of choices',
        hits,
        [`${last}, held out`, `${last}, training`, `${first}, held out`, `${first}, training`],
        true,
      ),
    ];
    return { hconcat: [loss, rate], resolve: { scale: { color: 'independent' as const } } };
  });
  const spec = { vconcat: rows, resolve: { scale: { color: 'independent' } } };
  return renderSvg(spec as unknown as TopLevelSpec);
}
