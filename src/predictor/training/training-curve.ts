/** curve.svg: loss and hit rates of each network over its steps. */
import { drawLines, type LineChart, PANEL } from '../../chart/line-chart.js';
import { group, svgDocument } from '../../chart/svg.js';
import { hitNames } from '../hit-ranks.js';
import type { Evaluation } from './network-state.js';

/** Draws a row of two panels per network. */
export function trainingCurve(evaluations: readonly Evaluation[], topK: number): string {
  const networks = [...new Set(evaluations.map(({ network }) => network))];
  const rows = networks.map((network) => {
    const own = evaluations.filter((evaluation) => evaluation.network === network);
    return [lossPanel(network, own), hitPanel(network, own, topK)];
  });
  const panels = rows.flatMap((row, at) =>
    row.map((chart, column) => group(column * PANEL.width, at * PANEL.height, drawLines(chart))),
  );
  return svgDocument(2 * PANEL.width, rows.length * PANEL.height, panels);
}

function lossPanel(network: string, own: readonly Evaluation[]): LineChart {
  return {
    title: `${network}: loss`,
    ...{ xTitle: 'optimizer steps', yTitle: 'per token and layer', zero: false },
    series: [
      { name: 'held out', points: own.map(({ step, heldOut }) => ({ x: step, y: heldOut.loss })) },
      { name: 'training', points: trained(own).map(({ step, train }) => ({ x: step, y: train.loss })) },
    ].filter(({ points }) => points.length > 0),
    marks: rateFalls(own),
  };
}

function hitPanel(network: string, own: readonly Evaluation[], topK: number): LineChart {
  const [first, last] = hitNames(topK);
  const heldOut = own.map(({ step, heldOut: { hits } }) => ({ step, hits }));
  const training = trained(own).map(({ step, train: { hits } }) => ({ step, hits }));
  const points = (of: typeof heldOut, rank: number) =>
    of.map(({ step, hits }) => ({ x: step, y: 100 * hits.at(rank)! }));
  return {
    title: `${network}: hit rate, mean over layers`,
    ...{ xTitle: 'optimizer steps', yTitle: topK === 1 ? '% of tokens' : '% of choices', zero: true },
    series: [
      { name: `${last}, held out`, points: points(heldOut, -1) },
      { name: `${last}, training`, points: points(training, -1) },
      { name: `${first}, held out`, points: points(heldOut, 0) },
      { name: `${first}, training`, points: points(training, 0) },
    ].filter((one) => one.points.length > 0),
  };
}

/** The steps after which the learning rate was lower. */
function rateFalls(own: readonly Evaluation[]): NonNullable<LineChart['marks']> {
  return own
    .filter(({ plateau }, i) => plateau && i + 1 < own.length)
    .map(({ step }) => ({ x: step, text: 'rate ÷ 10' }));
}

/** Keeps the evaluations that also measured the training set. */
function trained(own: readonly Evaluation[]): (Evaluation & { train: NonNullable<Evaluation['train']> })[] {
  return own.flatMap((evaluation) => (evaluation.train ? [{ ...evaluation, train: evaluation.train }] : []));
}
