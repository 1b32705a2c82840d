// How results become Markdown.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

const fileOf = (name) => `bench/results/${name}.json`;
export const hasResult = (name) => existsSync(fileOf(name));
export const result = (name) => JSON.parse(readFileSync(fileOf(name), 'utf8'));
export const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 30 ? 1 : 0)} MiB`;
export const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** The recorded command with the path that its script has today: scripts have moved since. */
export function commandToday(command) {
  return command.replace(/\bbench\/\S+\.mjs/, (path) => {
    if (existsSync(path)) return path;
    const found = readdirSync('bench/scripts', { recursive: true }).find(
      (name) => basename(name) === basename(path),
    );
    return found === undefined ? path : `bench/scripts/${found}`;
  });
}

export const source = (r) => `\`${commandToday(r.command)}\`\ncommit ${r.commit} · ${r.machine} · ${r.isa}`;
