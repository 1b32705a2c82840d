/** Writes SVG: elements as text, with every name and word escaped. */

type Attributes = Record<string, string | number>;

/** Legible at half size. */
const FONT = 'Helvetica, Arial, sans-serif';

/** Text and attribute values: characters that XML reserves, and control characters that it does not allow at all. */
function escaped(text: string): string {
  return (
    text
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '\ufffd')
  );
}

/** Hundredths of a point are more than any screen shows. */
function valueText(value: string | number): string {
  return typeof value === 'number' ? String(Math.round(value * 100) / 100) : escaped(value);
}

/** An element; `children` are elements or texts made by this file. */
export function element(name: string, attributes: Attributes, children: readonly string[] = []): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${valueText(value)}"`);
  const open = `<${name}${written.join('')}`;
  return children.length === 0 ? `${open}/>` : `${open}>${children.join('')}</${name}>`;
}

/** Words that begin at (x, y); `text-anchor` says otherwise. */
export function text(content: string, x: number, y: number, attributes: Attributes = {}): string {
  return element('text', { x, y, 'font-size': 12, ...attributes }, [escaped(content)]);
}

export function line(x1: number, y1: number, x2: number, y2: number, attributes: Attributes = {}): string {
  return element('line', { x1, y1, x2, y2, stroke: 'black', ...attributes });
}

export function group(x: number, y: number, children: readonly string[]): string {
  return element('g', { transform: `translate(${valueText(x)},${valueText(y)})` }, children);
}

/** A whole picture on white ground. */
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
