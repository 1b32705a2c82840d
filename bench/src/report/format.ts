/** Tables, and how they write numbers. */
import { formatBytes } from '../../../dist/text/bytes.js';
import { LINKS } from '../scenarios/links.js';
import { modelNamed } from '../scenarios/models.js';
import type { Scenario } from '../scenarios/scenarios.js';

export interface Table {
  caption?: string;
  /** Names of the columns, with ` | ` between them. */
  head: string;
  rows: unknown[][];
}

export function markdownTable({ caption, head, rows }: Table): string {
  const cells = rows.map((row) => row.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | '));
  const rule = head.split(' | ').map(() => '---');
  const lines = [head, rule.join(' | '), ...cells].map((line) => `| ${line} |`);
  return [...(caption === undefined ? [] : [`${caption}:`, '']), ...lines].join('\n');
}

export const DASH = '–';

export function times(ratio: number | null | undefined): string {
  if (ratio === Number.POSITIVE_INFINITY) return '∞';
  return ratio == null || !Number.isFinite(ratio) ? DASH : `${ratio.toFixed(2)}×`;
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share == null || !Number.isFinite(share) ? DASH : `${(100 * share).toFixed(digits).replace('-', '−')} %`;
}

/** Milliseconds, or a rate. */
export function figure(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

export function bytes(count: number): string {
  return formatBytes(Math.round(count));
}

export function shareName(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}

const TITLES: Record<string, string> = {
  sst2: 'SST-2',
  mrpc: 'MRPC',
  multirc: 'MultiRC',
  words: 'categories of nouns',
  category: 'categories of nouns',
  text: 'WikiText-2',
};

export function dataTitle(data: string): string {
  return TITLES[data] ?? data;
}

/** Names a simulated link wherever one was used, and a GPU. */
export function linkTitle({ link, device }: Pick<Scenario, 'link' | 'device'>): string {
  return device === 'cuda' ? `${LINKS[link].title} to GPU` : LINKS[link].title;
}

/** `switch-base-8-bf16 (random weights)`. */
export function modelTitle(name: string): string {
  const { weights, expertBytes } = modelNamed(name);
  const padded = expertBytes === undefined ? '' : `, experts filled with zeros up to ${expertBytes}`;
  return weights === 'random' ? `${name} (random weights)` : `${name} (trained${padded})`;
}
