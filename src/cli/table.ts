/** Formats rows as columns of text. `align` has one letter per column: l aligns left, r aligns right. */
export function formatTable(align: string, rows: string[][]): string {
  const widths = [...align].map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const pad = (cell: string, column: number) =>
    align[column] === 'r' ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!);
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n');
}
