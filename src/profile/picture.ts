/** A picture of a window of a profile: what both threads did, and what moved meanwhile. */
import type { TopLevelSpec } from 'vega-lite';
import { renderSvg } from '../chart/svg.js';
import { formatBytes } from '../config/bytes.js';
import { type Interval, intersection, length, union } from './intervals.js';
import { LEGEND, segmentsOf } from './segments.js';
import { isPass } from './summary.js';
import type { Lane, Span, Timeline } from './timeline.js';

const WIDTH = 1080;
const LANE_HEIGHT = 62;
/**
 * Okabe and Ito's colours, greys for what is seldom asked for, two greens for transfers. In the order of the legend.
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

/** `about` and the window's figures are the title. */
export function drawTimeline({ about, lanes }: Timeline, window: Interval): Promise<string> {
  const shown = lanes.filter(({ name }) => name !== 'main').toSorted((a, b) => place(a) - place(b));
  const names = namesOf(shown);
  // Less than a third of a point is one line to the eye.
  const gapMs = (window.end - window.begin) / (3 * WIDTH);
  const bars = shown.flatMap((lane, i) =>
    segmentsOf(lane, window, gapMs).map(({ begin, end, group }) => ({
      lane: names[i],
      group,
      begin: begin - window.begin,
      end: end - window.begin,
    })),
  );
  const passes = shown.flatMap(({ spans }, i) =>
    spans
      .filter((span) => isPass(span) && within(span, window))
      .map((span) => passLabel(span, names[i]!, window)),
  );
  const lane = { field: 'lane', type: 'nominal', scale: { domain: names }, title: null } as const;
  const x = {
    field: 'begin',
    type: 'quantitative',
    title: 'milliseconds',
    scale: { domain: [0, window.end - window.begin], nice: false },
  } as const;
  const spec = {
    title: { text: about.model, subtitle: describe(shown, window), subtitleFontSize: 12, offset: 12 },
    width: WIDTH,
    height: LANE_HEIGHT * names.length,
    layer: [
      {
        data: { values: bars },
        mark: { type: 'bar', height: { band: 0.62 } },
        encoding: {
          y: { ...lane, axis: { labelLimit: 0, labelFontSize: 13, ticks: false, domain: false } },
          x,
          x2: { field: 'end' },
          color: {
            field: 'group',
            type: 'nominal',
            scale: { domain: LEGEND, range: COLOURS },
            legend: { title: null, orient: 'bottom', columns: 5, symbolType: 'square', symbolSize: 140 },
          },
        },
      },
      {
        data: { values: passes },
        mark: { type: 'tick', thickness: 1.5, size: LANE_HEIGHT * 0.86, color: 'black' },
        encoding: { y: lane, x },
      },
      {
        data: { values: passes.filter(({ label }) => label !== '') },
        mark: { type: 'text', align: 'left', dx: 3, dy: -LANE_HEIGHT * 0.39, fontSize: 11 },
        encoding: { y: lane, x, text: { field: 'label' } },
      },
    ],
  };
  return renderSvg(spec as unknown as TopLevelSpec);
}

/** The batch of median length and the pass behind it; where there are no batches, the pass of median length. */
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

/** Several threads may transfer. */
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

/** Short passes get their mark alone: their words would lie over those of the next. */
function passLabel({ name, begin, end, args }: Span, lane: string, window: Interval) {
  const from = Math.max(begin, window.begin);
  const points = ((Math.min(end, window.end) - from) / (window.end - window.begin)) * WIDTH;
  const label = `${name}, ${args.tokens} tokens`;
  return { lane, begin: from - window.begin, label: points > label.length * 6 ? label : '' };
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
