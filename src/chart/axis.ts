/** Draws axes: chooses their ticks and formats their numbers. */
import { element, line, text } from './svg.js';

/** Maps values of the data to points of the picture. */
export interface Scale {
  least: number;
  most: number;
  /** Positions of `least` and of `most`, in points. */
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

/** Round numbers from `least` to `most`. Either bound is included if it is round. */
export function ticks(least: number, most: number, count: number): number[] {
  if (!(most > least)) return [least];
  const step = stepOf(most - least, count);
  const first = Math.ceil(least / step - 1e-9);
  const last = Math.floor(most / step + 1e-9);
  // Multiples of the step have rounding errors, which would be printed.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** The smallest range of whole ticks that contains the values. With `zero`, it also contains 0. */
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

/** Draws an axis at `y`, with marks and numbers below it, grid lines up to `top`, and the title in the middle. */
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
 * Draws an axis at `x`, with marks and numbers on its left and grid lines to `right`. The rotated title stands `room`
 * points to the left.
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
