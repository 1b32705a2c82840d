/** How the report writes numbers. */
import { formatBytes } from '../../../dist/text/bytes.js';
import { LINKS } from '../scenarios/links.js';
import type { Scenario } from '../scenarios/scenarios.js';

export const DASH = '–';
export const CANNOT_TELL = 'cannot tell' as const;
export const NOT_MEASURED = 'not measured' as const;

export function times(ratio: number | null | undefined): string {
  if (ratio === Number.POSITIVE_INFINITY) return '∞';
  return ratio == null || !Number.isFinite(ratio) ? DASH : `${ratio.toFixed(2)}×`;
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share == null || !Number.isFinite(share)
    ? DASH
    : `${(100 * share).toFixed(digits).replace('-', '−')} %`;
}

export function ms(value: number): string {
  return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
}

export function rate(value: number): string {
  return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
}

export const bytes = formatBytes;

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
