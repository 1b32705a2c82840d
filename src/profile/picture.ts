/** Draws a window of a profile: the events of both threads, and the transfers at the same time. */
import { horizontalAxis, place as placeOn, type Scale } from '../chart/axis.js';
import { element, line, svgDocument, text } from '../chart/svg.js';
import { formatBytes } from '../text/bytes.js';
import { type Interval, intersection, length, union } from './intervals.js';
import { LEGEND, segmentsOf } from './segments.js';
import { isPass } from './summary.js';
import type { Lane, Span, Timeline } from './timeline.js';

const WIDTH = 1080;
const LANE_HEIGHT = 62;
/**
 * Colours in the order of the legend: Okabe and Ito's palette, with greys for the less important groups.
 */
const COLOURS = [
  '#0072b2',
  '#56b4e9',
  '#8a9fb0',
  '#c9ced3',
  '#d55e00',
  '#f0e442',
  '#cc79a7',
  '#009e73',
  '#7a3b00',
];

/** Space for the title above the lanes, for their names on the left, and for axis and legend below. */
const TOP = 56;
const LEFT = 150;
const AXIS_HEIGHT = 56;
const LEGEND_COLUMNS = 5;
const LEGEND_LINE = 22;

/** Returns an SVG document. Its title shows the model and the figures of the window. */
export function drawTimeline({ about, lanes }: Timeline, window: Interval): string {
  const shown = lanes.filter(({ name }) => name !== 'main').toSorted((a, b) => place(a) - place(b));
  const names = namesOf(shown);
  const bottom = TOP + LANE_HEIGHT * names.length;
  const x: Scale = { least: 0, most: window.end - window.begin, from: LEFT, to: LEFT + WIDTH };
  const height = bottom + AXIS_HEIGHT + LEGEND_LINE * Math.ceil(LEGEND.length / LEGEND_COLUMNS) + 10;
  return svgDocument(LEFT + WIDTH + 30, height, [
    text(about.model, LEFT, 20, { 'font-size': 15, 'font-weight': 'bold' }),
    text(describe(shown, window), LEFT, 38),
    ...horizontalAxis(x, bottom, TOP, 'milliseconds', 20),
    ...shown.flatMap((lane, i) => drawLane(lane, names[i]!, TOP + LANE_HEIGHT * i, window, x)),
    ...drawLegend(bottom + AXIS_HEIGHT),
  ]);
}

/** Draws a bar for each segment, and a labelled mark where a pass begins. */
function drawLane(lane: Lane, name: string, top: number, window: Interval, x: Scale): string[] {
  // A gap of less than a third of a point is not visible.
  const gapMs = (window.end - window.begin) / (3 * WIDTH);
  const middle = top + LANE_HEIGHT / 2;
  const bars = segmentsOf(lane, window, gapMs).map(({ begin, end, group }) => {
    const from = placeOn(x, begin - window.begin);
    const width = placeOn(x, end - window.begin) - from;
    const height = LANE_HEIGHT * 0.62;
    return element('rect', { x: from, y: middle - height / 2, width, height, fill: colourOf(group) });
  });
  const passes = lane.spans
    .filter((span) => isPass(span) && within(span, window))
    .flatMap((span) => {
      const { begin, label } = passLabel(span, window);
      const at = placeOn(x, begin);
      const half = LANE_HEIGHT * 0.43;
      return [
        line(at, middle - half, at, middle + half, { 'stroke-width': 1.5 }),
        ...(label === '' ? [] : [text(label, at + 3, middle - half + 5, { 'font-size': 11 })]),
      ];
    });
  return [text(name, LEFT - 10, middle + 4, { 'text-anchor': 'end', 'font-size': 13 }), ...bars, ...passes];
}

function drawLegend(top: number): string[] {
  return LEGEND.flatMap((group, i) => {
    const x = LEFT + (i % LEGEND_COLUMNS) * (WIDTH / LEGEND_COLUMNS);
    const y = top + Math.floor(i / LEGEND_COLUMNS) * LEGEND_LINE;
    return [
      element('rect', { x, y, width: 12, height: 12, fill: colourOf(group) }),
      text(group, x + 18, y + 11),
    ];
  });
}

function colourOf(group: string): string {
  return COLOURS[LEGEND.indexOf(group)] ?? 'black';
}

/** The batch of median length and the pass after it. Without batches, the pass of median length and the next one. */
export function defaultWindow({ about, lanes }: Timeline): Interval {
  const spans = lanes.flatMap((lane) => lane.spans);
  const batches = spans.filter(({ name }) => name === 'batch');
  const passes = spans.filter(isPass);
  const byLength = (batches.length > 0 ? batches : passes).toSorted((a, b) => length([a]) - length([b]));
  const usual = byLength[byLength.length >> 1];
  if (usual === undefined) return { begin: 0, end: about.seconds * 1000 };
  const next = passes.find(({ begin }) => begin >= usual.end);
  return { begin: usual.begin, end: next?.end ?? usual.end };
}

function place({ name }: Lane): number {
  const at = ['hash building', 'inference'].indexOf(name);
  return at < 0 ? 2 : at;
}

/** The lanes' names. Lanes with the same name are numbered, because several threads may transfer. */
function namesOf(lanes: readonly Lane[]): string[] {
  return lanes.map(({ name }, i) => {
    const same = lanes.filter((lane) => lane.name === name);
    const full = place(lanes[i]!) < 2 ? `${name} thread` : name;
    return same.length === 1 ? full : `${full} ${same.indexOf(lanes[i]!) + 1}`;
  });
}

function within({ begin, end }: Interval, window: Interval): boolean {
  return begin < window.end && end > window.begin;
}

/** The label of a pass. A short pass gets none, because the text would overlap the next label. */
function passLabel({ name, begin, end, args }: Span, window: Interval): { begin: number; label: string } {
  const from = Math.max(begin, window.begin);
  const points = ((Math.min(end, window.end) - from) / (window.end - window.begin)) * WIDTH;
  const label = `${name}, ${args.tokens} tokens`;
  return { begin: from - window.begin, label: points > label.length * 6 ? label : '' };
}

function describe(lanes: readonly Lane[], window: Interval): string {
  const spans = lanes.flatMap((lane) => lane.spans).filter((span) => within(span, window));
  const inWindow = (chosen: Span[]) => intersection(union(chosen), [window]);
  const passes = inWindow(spans.filter(isPass));
  const stalls = inWindow(spans.filter(({ category }) => category === 'stall'));
  const transfers = spans.filter(({ category }) => category === 'transfer');
  const moving = inWindow(transfers);
  const hidden = length(intersection(moving, passes)) - length(intersection(moving, stalls));
  const bytes = transfers.reduce((sum, { args }) => sum + (args.bytes ?? 0), 0);
  const percent = (part: number, whole: number) => `${((100 * part) / (whole || 1)).toFixed(0)} %`;
  return (
    `${transfers.length} transfers, ${formatBytes(bytes)}; ${percent(hidden, length(moving))} of their time lies behind compute; ` +
    `passes wait ${percent(length(stalls), length(passes))} of theirs`
  );
}
