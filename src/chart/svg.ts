/** Writes SVG elements as text. Attribute values and contents are escaped. */
import { replaceMisleading } from '../text/visible.js';

type Attributes = Record<string, string | number>;

const FONT = 'Helvetica, Arial, sans-serif';

/** Escapes the characters that XML reserves, and replaces control characters and other invisible ones. */
function escaped(text: string): string {
  return replaceMisleading(text, () => '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replace(/[\ufffe\uffff]/gu, '\ufffd');
}

/** Rounds numbers to hundredths of a point, which is finer than any screen. */
function valueText(value: string | number): string {
  return typeof value === 'number' ? String(Math.round(value * 100) / 100) : escaped(value);
}

/** An element. `children` must be elements or escaped text, because they are written as they are. */
export function element(name: string, attributes: Attributes, children: readonly string[] = []): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${valueText(value)}"`);
  const open = `<${name}${written.join('')}`;
  return children.length === 0 ? `${open}/>` : `${open}>${children.join('')}</${name}>`;
}

/** Text that begins at (x, y), unless `text-anchor` says otherwise. */
export function text(content: string, x: number, y: number, attributes: Attributes = {}): string {
  return element('text', { x, y, 'font-size': 12, ...attributes }, [escaped(content)]);
}

export function line(x1: number, y1: number, x2: number, y2: number, attributes: Attributes = {}): string {
  return element('line', { x1, y1, x2, y2, stroke: 'black', ...attributes });
}

export function group(x: number, y: number, children: readonly string[]): string {
  return element('g', { transform: `translate(${valueText(x)},${valueText(y)})` }, children);
}

/** A complete SVG document with a white background. */
export function svgDocument(width: number, height: number, children: readonly string[]): string {
  const attributes = {
    xmlns: 'http://www.w3.org/2000/svg',
    width,
    height,
    viewBox: `0 0 ${valueText(width)} ${valueText(height)}`,
    'font-family': FONT,
  };
  const ground = element('rect', { width, height, fill: 'white' });
  return `${element('svg', attributes, [ground, ...children])}\n`;
}
