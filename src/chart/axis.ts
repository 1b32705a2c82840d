/** Axes: where their ticks stand and how their numbers are written. */
import { element, line, text } from './svg.js';

/** From values of the data to points of the picture. */
export interface Scale {
  least: number;
  most: number;
  /** Points of `least` and of `most`. */
  from: number;
  to: number;
}

export function place({ least, most, from, to }: Scale, value: number): number {
  return from + ((value - least) / (most - least || 1)) * (to - from);
}

/** The step of 1, 2 or 5 times a power of ten that gives at most `count` intervals. */
function stepOf(span: number, count: number): number {
  const power = 10 ** Math.floor(Math.log10(span / count));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => span / step <= count * (1 + 1e-9))!;
}

/** Round numbers from `least` to `most`, both included where they are round. */
export function ticks(least: number, most: number, count: number): number[] {
  if (!(most > least)) return [least];
  const step = stepOf(most - least, count);
  const first = Math.ceil(least / step - 1e-9);
  const last = Math.floor(most / step + 1e-9);
  // Sums of steps gather rounding errors, which would be printed.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** The smallest range of whole ticks around the values; `zero`: it begins at 0. */
export function niceRange(values: readonly number[], zero: boolean, count: number): [number, number] {
  let least = zero ? 0 : Number.POSITIVE_INFINITY;
  let most = zero ? 0 : Number.NEGATIVE_INFINITY;
  for (const value of values) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (!(least <= most)) return [0, 1];
  if (least === most) return most === 0 ? [0, 1] : [Math.min(0, least), Math.max(0, most)];
  const step = stepOf(most - least, count);
  return [Math.floor(least / step + 1e-9) * step, Math.ceil(most / step - 1e-9) * step];
}

const GRID = '#e6e6e6';
const AXIS = '#888888';

/** Marks and numbers below the line at `y`, grid lines up to `top`, and the title in the middle. */
export function horizontalAxis(scale: Scale, y: number, top: number, title: string, count: number): string[] {
  const marks = ticks(scale.least, scale.most, count).flatMap((value) => {
    const x = place(scale, value);
    return [
      line(x, top, x, y, { stroke: GRID }),
      line(x, y, x, y + 5, { stroke: AXIS }),
      text(value.toLocaleString('en'), x, y + 18, { 'text-anchor': 'middle' }),
    ];
  });
  const middle = (scale.from + scale.to) / 2;
  return [
    ...marks,
    line(scale.from, y, scale.to, y, { stroke: AXIS }),
    text(title, middle, y + 38, { 'text-anchor': 'middle', 'font-size': 13 }),
  ];
}

/**
 * Marks and numbers left of the line at `x`, grid lines to `right`, and the title, turned, `room` points to the left.
 */
export function verticalAxis(scale: Scale, x: number, right: number, title: string, room: number): string[] {
  const marks = ticks(scale.least, scale.most, 6).flatMap((value) => {
    const y = place(scale, value);
    return [
      line(x, y, right, y, { stroke: GRID }),
      line(x - 5, y, x, y, { stroke: AXIS }),
      text(value.toLocaleString('en', { maximumFractionDigits: 6 }), x - 8, y + 4, { 'text-anchor': 'end' }),
    ];
  });
  const middle = (scale.from + scale.to) / 2;
  const turned = { transform: `rotate(-90 ${x - room} ${middle})`, 'text-anchor': 'middle', 'font-size': 13 };
  return [
    ...marks,
    line(x, scale.from, x, scale.to, { stroke: AXIS }),
    element('g', {}, [text(title, x - room, middle, turned)]),
  ];
}
