/** curve.svg: loss and hit rates over the steps of each network. */
import type { TopLevelSpec } from 'vega-lite';
import { renderSvg } from '../../chart/svg.js';
import type { Stack } from '../../trace/trace-index.js';
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

function hitPoints({ step, train, heldOut }: Evaluation): Point[] {
  const points = (of: Measures, name: string) =>
    ([1, 3] as const).map((top) => ({
      step,
      series: `top ${top}, ${name}`,
      value: 100 * of.hits[(top - 1) as 0 | 2],
    }));
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
export function trainingCurve(evaluations: readonly Evaluation[]): Promise<string> {
  const networks = (['encoder', 'decoder'] as Stack[]).filter((stack) =>
    evaluations.some(({ network }) => network === stack),
  );
  const rows = networks.map((stack) => {
    const own = evaluations.filter(({ network }) => network === stack);
    const losses = own.flatMap(lossPoints);
    const hits = own.flatMap(hitPoints);
    const [loss, rate] = [
      panel(`${stack}: loss`, 'per token and layer', losses, ['held out', 'training'], false),
      panel(
        `${stack}: hit rate, mean over layers`,
        '% of tokens',
        hits,
        ['top 3, held out', 'top 3, training', 'top 1, held out', 'top 1, training'],
        true,
      ),
    ];
    return { hconcat: [loss, rate], resolve: { scale: { color: 'independent' as const } } };
  });
  const spec = { vconcat: rows, resolve: { scale: { color: 'independent' } } };
  return renderSvg(spec as unknown as TopLevelSpec);
}
