import { expect, it } from 'vitest';
import { niceRange, place, ticks } from '../../../src/chart/axis.js';
import { drawLines } from '../../../src/chart/line-chart.js';
import { element, svgDocument, text } from '../../../src/chart/svg.js';

it('escapes texts and attributes, and replaces characters that XML does not allow', () => {
  expect(text('a < b & "c" >\u0000', 1, 2.005)).toBe(
    '<text x="1" y="2.01" font-size="12">a &lt; b &amp; &quot;c&quot; &gt;\ufffd</text>',
  );
  expect(element('rect', { fill: '"><script>', width: 1 / 3 })).toBe(
    '<rect fill="&quot;&gt;&lt;script&gt;" width="0.33"/>',
  );
});

it('makes a document of the given size with a white background', () => {
  const svg = svgDocument(30, 20, [text('x', 0, 0)]);
  expect(svg).toMatch(
    /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" width="30" height="20" viewBox="0 0 30 20"/,
  );
  expect(svg).toContain('<rect width="30" height="20" fill="white"/>');
  expect(svg.endsWith('</svg>\n')).toBe(true);
});

it.each([
  [0, 100, 5, [0, 20, 40, 60, 80, 100]],
  [0, 0.31, 6, [0, 0.1, 0.2, 0.3]],
  [3, 17, 5, [5, 10, 15]],
  [-1, 1, 4, [-1, -0.5, 0, 0.5, 1]],
  [7, 7, 5, [7]],
])('ticks from %d to %d, at most %d intervals, are round: %j', (least, most, count, expected) => {
  expect(ticks(least, most, count)).toEqual(expected);
});

it.each([
  [[3, 17], false, [0, 20]],
  [[88, 97], false, [88, 98]],
  [[88, 97], true, [0, 100]],
  [[], false, [0, 1]],
  [[0], false, [0, 1]],
  [[5], false, [0, 5]],
] as const)('the range of %j (from zero: %s) is %j', (values, zero, expected) => {
  expect(niceRange(values, zero, 6)).toEqual(expected);
});

it('places the ends of a range at the ends of its axis, also for a single value', () => {
  const scale = { least: 2, most: 4, from: 100, to: 0 };
  expect([2, 3, 4].map((value) => place(scale, value))).toEqual([100, 50, 0]);
  expect(place({ ...scale, most: 2 }, 2)).toBe(100);
});

it('draws a point for each value inside the panel, and names each series', () => {
  const points = Array.from({ length: 9 }, (_, i) => ({ x: i * 250, y: 1 / (i + 1) }));
  const chart = { title: 't', xTitle: 'x', yTitle: 'y', zero: false };
  const drawn = drawLines({
    ...chart,
    series: [
      { name: 'a & b', points },
      { name: 'none', points: [] },
    ],
  }).join('');
  expect(drawn.match(/<circle /g)).toHaveLength(points.length);
  expect(drawn).toContain('>a &amp; b</text>');
  expect(drawn).toContain('>2,000</text>');
  expect(drawn).not.toMatch(/NaN|Infinity/);
});
