/** Tables as Markdown. */
import type { Table } from './section.js';

export function markdownTable({ caption, head, rows }: Table): string {
  const lines = [head, head.map(() => '---'), ...rows].map(
    (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`,
  );
  return [...(caption === undefined ? [] : [`${caption}:`, '']), ...lines].join('\n');
}
