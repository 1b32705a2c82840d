/** Where a result came from, as its script has recorded it. */
export interface Recorded {
  command: string;
  commit: string;
  isa: string;
}

/** The commands of the results, with commit and instruction set; `otherwise` where there is none. */
export function recorded(otherwise: string, results: readonly Recorded[]): string {
  if (results.length === 0) return `\`${otherwise}\``;
  return results.map(({ command, commit, isa }) => `\`${command}\` (${commit}, ${isa})`).join('; ');
}
