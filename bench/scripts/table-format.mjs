// How results become Markdown.
import { readFileSync } from 'node:fs';

export const result = (name) => JSON.parse(readFileSync(`bench/results/${name}.json`, 'utf8'));
export const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 30 ? 1 : 0)} MiB`;
export const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
export const source = (r) => `\`${r.command}\`\ncommit ${r.commit} · ${r.machine} · ${r.isa}`;
