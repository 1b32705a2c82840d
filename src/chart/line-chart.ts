/** A panel of lines over one horizontal axis, with a legend to the right. */
import { horizontalAxis, niceRange, place, type Scale, verticalAxis } from './axis.js';
import { COLOURS } from './colours.js';
import { element, line, text } from './svg.js';

export interface Series {
  name: string;
  points: readonly { x: number; y: number }[];
}

export interface LineChart {
  title: string;
  xTitle: string;
  yTitle: string;
  /** The series, in the order of the legend and of the colours. */
  series: readonly Series[];
  /** Whether the vertical axis begins at 0. */
  zero: boolean;
  /** Places on the horizontal axis that get an upright line and a text. */
  marks?: readonly { x: number; text: string }[];
}

/** Size of a panel in points, including its axes and legend. */
export const PANEL = { width: 640, height: 320 };
const PLOT = { left: 66, top: 34, right: 486, bottom: 264 };
const LEGEND = { left: 500, line: 20 };

export function drawLines({ title, xTitle, yTitle, series, zero, marks = [] }: LineChart): string[] {
  const points = series.flatMap((one) => one.points);
  const xs = points.map(({ x }) => x);
  const [left, right] = niceRange(xs, true, 6);
  const [bottom, top] = niceRange(
    points.map(({ y }) => y),
    zero,
    6,
  );
  const x: Scale = { least: left, most: right, from: PLOT.left, to: PLOT.right };
  const y: Scale = { least: bottom, most: top, from: PLOT.bottom, to: PLOT.top };
  return [
    text(title, PLOT.left, 18, { 'font-size': 15, 'font-weight': 'bold' }),
    ...horizontalAxis(x, PLOT.bottom, PLOT.top, xTitle, 6),
    ...verticalAxis(y, PLOT.left, PLOT.right, yTitle, 50),
    ...marks.flatMap((mark) => drawMark(mark.text, place(x, mark.x))),
    ...series.flatMap((one, i) => drawSeries(one, COLOURS[i % COLOURS.length]!, x, y)),
    ...series.flatMap(({ name }, i) => {
      const at = PLOT.top + 8 + i * LEGEND.line;
      return [
        line(LEGEND.left, at, LEGEND.left + 18, at, {
          stroke: COLOURS[i % COLOURS.length]!,
          'stroke-width': 2,
        }),
        text(name, LEGEND.left + 24, at + 4),
      ];
    }),
  ];
}

function drawMark(mark: string, at: number): string[] {
  return [
    line(at, PLOT.top, at, PLOT.bottom, { stroke: '#666666', 'stroke-dasharray': '4 3' }),
    text(mark, at + 3, PLOT.top + 10, { 'font-size': 10 }),
  ];
}

function drawSeries({ points }: Series, colour: string, x: Scale, y: Scale): string[] {
  const placed = points.map((point) => ({ cx: place(x, point.x), cy: place(y, point.y) }));
  const path = placed.map(({ cx, cy }) => `${cx.toFixed(2)},${cy.toFixed(2)}`).join(' ');
  return [
    element('polyline', { points: path, fill: 'none', stroke: colour, 'stroke-width': 2 }),
    ...placed.map((at) => element('circle', { ...at, r: 2.5, fill: colour })),
  ];
}
