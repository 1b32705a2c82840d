// How results become Markdown.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { markdownTable } from '../../dist/report/format.js';

const fileOf = (name) => `bench/results/${name}.json`;
export const hasResult = (name) => existsSync(fileOf(name));
export const result = (name) => JSON.parse(readFileSync(fileOf(name), 'utf8'));

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits).replace('-', '−')} %`;
export const times = (ratio) => `${ratio.toFixed(2)}×`;
export const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 30 ? 1 : 0)} MiB`;
export const gbs = (value) => (value === undefined ? '–' : `${(value / 1e9).toFixed(1)} GB/s`);
export const fixed = (digits) => (value) => value.toFixed(digits);

/** What scripts are called today whose options are those of old. */
const RENAMED = { 'teacher-forced.mjs': 'decoder-budgets.mjs', 'model-gating.mjs': 'gating.mjs' };

/** The recorded command with the path that its script has today. One that is gone keeps its name alone. */
function commandToday(command) {
  return command.replace(/\bbench\/\S+\.mjs/, (path) => {
    if (existsSync(path)) return path;
    const name = RENAMED[basename(path)] ?? basename(path);
    const found = readdirSync('bench/scripts', { recursive: true }).find((own) => basename(own) === name);
    return found === undefined ? name : `bench/scripts/${found}`;
  });
}

export const source = ({ command, commit, machine, isa }) =>
  `\`${commandToday(command)}\`\ncommit ${commit} · ${machine} · ${isa}`;

/** A table with its words and its source. */
export const text = (r, head, rows, about) =>
  [markdownTable({ head, rows }), ...(about ? [about] : []), source(r)].join('\n\n');

export const plain = (head, rows) => markdownTable({ head, rows });

/** The tables of those results that exist. */
export const each = (names, make) =>
  names
    .filter(hasResult)
    .map((name) => make(result(name), name))
    .join('\n\n');
export const withAmx = (name) => [name, `${name}-amx`];
