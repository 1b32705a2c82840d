import { visible } from '../text/visible.js';

/** Formats rows as lines with columns. `align` has one letter per column: l aligns left, r aligns right. */
export function tableLines(align: string, cells: string[][]): string[] {
  const rows = cells.map((row) => row.map(visible));
  const widths = [...align].map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const pad = (cell: string, column: number) =>
    align[column] === 'r' ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!);
  return rows.map((row) => row.map(pad).join('  ').trimEnd());
}
