/** Columns of text. `align` has a letter for each column: l to the left, r to the right. */
export function formatTable(align: string, rows: string[][]): string {
  const widths = [...align].map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const pad = (cell: string, column: number) =>
    align[column] === 'r' ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!);
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n');
}
