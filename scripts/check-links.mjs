// Every relative link and anchor of the tracked Markdown files resolves, and every path that they name in backticks
// exists.
//   node scripts/check-links.mjs
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';

const git = (args, input) =>
  execFileSync('git', args, { input, encoding: 'utf8', maxBuffer: 1 << 26 })
    .split('\0')
    .filter(Boolean);
const files = new Set(git(['ls-files', '-z', '--cached', '--others', '--exclude-standard']));
for (const gone of git(['ls-files', '-z', '--deleted'])) files.delete(gone);
const folders = new Set(['.']);
for (const file of files) {
  for (let dir = posix.dirname(file); !folders.has(dir); dir = posix.dirname(dir)) folders.add(dir);
}
const exists = (path) => files.has(path) || folders.has(path);
const pages = [...files].filter((file) => file.endsWith('.md') && !file.includes('third_party/'));

/** A path of this repository: it begins with one of the folders here, and holds no blank and no placeholder. */
const ROOTS = [...folders].filter((dir) => dir !== '.' && !dir.includes('/'));
const PATH = new RegExp(`^(?:${ROOTS.map((root) => root.replace('.', '\\.')).join('|')})/[\\w.*{},/@-]*$`);
const FENCE = /^ {0,3}(```|~~~)/;

/** The lines of a page with their numbers; `code` marks those of fenced blocks. */
function linesOf(text) {
  let code = false;
  return text.split('\n').map((line, index) => {
    const fence = FENCE.test(line);
    if (fence) code = !code;
    return { number: index + 1, line, code: code || fence };
  });
}

/** The anchor that GitHub gives a heading: lower case, without punctuation, blanks as hyphens. */
const anchorOf = (heading) =>
  heading
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
    .trim()
    .replaceAll(' ', '-');

const texts = new Map(pages.map((page) => [page, linesOf(readFileSync(page, 'utf8'))]));
const anchors = new Map(
  [...texts].map(([page, lines]) => {
    const counts = new Map();
    const found = new Set();
    for (const { line, code } of lines) {
      for (const [, id] of line.matchAll(/<a (?:id|name)="([^"]+)"/g)) found.add(id);
      const heading = code ? null : /^#{1,6} +(.*?)(?: #+)?$/.exec(line);
      if (heading === null) continue;
      const anchor = anchorOf(heading[1]);
      const before = counts.get(anchor) ?? 0;
      counts.set(anchor, before + 1);
      found.add(before === 0 ? anchor : `${anchor}-${before}`);
    }
    return [page, found];
  }),
);

/** What is wrong with a link from a page, or undefined. */
function brokenLink(page, target) {
  if (/^[a-z][a-z+.-]*:/i.test(target)) return undefined;
  const [path, anchor] = decodeURI(target).split('#');
  const file = path === '' ? page : posix.join(posix.dirname(page), path).replace(/\/$/, '');
  if (!exists(file)) return `${target} leads to ${file}, which is not there`;
  if (anchor !== undefined && anchors.has(file) && !anchors.get(file).has(anchor)) {
    return `${target}: ${file} has no heading #${anchor}`;
  }
  return undefined;
}

/** Whether some file matches a path with `*`, `{a,b}` or a placeholder such as NAME. */
function matches(path) {
  const escaped = path
    .replace(/[.@]/g, '\\$&')
    .replaceAll('NAME', '*')
    .replaceAll('**', '\0')
    .replaceAll('*', '[^/]*')
    .replaceAll('\0', '.*');
  const pattern = escaped.replace(/\{([^}]*)\}/g, (_, names) => `(?:${names.replaceAll(',', '|')})`);
  const whole = new RegExp(`^${pattern.replace(/\/$/, '')}$`);
  return [...files, ...folders].some((file) => whole.test(file));
}

const problems = [];
const missing = [];
for (const [page, lines] of texts) {
  for (const { line, code, number } of lines) {
    const where = `${page}:${number}`;
    const spans = code ? [] : [...line.matchAll(/(?<!`)`([^`]+)`(?!`)/g)].map(([, span]) => span);
    const prose = code ? '' : line.replace(/(?<!`)`[^`]+`(?!`)/g, '`');
    for (const [, target] of prose.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)) {
      const problem = brokenLink(page, target);
      if (problem !== undefined) problems.push(`${where}: ${problem}`);
    }
    for (const [, target] of prose.matchAll(/^\s*\[[^\]]+\]:\s+(\S+)/g)) {
      const problem = brokenLink(page, target);
      if (problem !== undefined) problems.push(`${where}: ${problem}`);
    }
    // A result names the command of its commit.
    if (page.startsWith('bench/results/')) continue;
    const commands = code || line.startsWith('    ') ? [line] : spans.filter((span) => span.includes(' '));
    const named = commands
      .flatMap((command) => command.split(/[\s'"=(),;]+/))
      .filter((word) => /\.\w+$/.test(word));
    for (const path of [...spans, ...named]) {
      if (!PATH.test(path) || exists(path.replace(/\/$/, '')) || matches(path)) continue;
      missing.push({ where, path });
    }
  }
}

// What a command makes is not in the repository, and .gitignore says so.
function ignoredOf(paths) {
  try {
    return new Set(git(['check-ignore', '-z', '--stdin'], paths.join('\0')));
  } catch (error) {
    if (error.status === 1) return new Set();
    throw error;
  }
}
const ignored = ignoredOf(missing.map(({ path }) => path));
for (const { where, path } of missing) {
  if (!ignored.has(path)) problems.push(`${where}: \`${path}\` is not in the repository`);
}

for (const problem of problems) console.error(problem);
if (problems.length > 0) {
  console.error(
    `${problems.length} broken links or paths. Mend them where they stand, or name what is meant.`,
  );
  process.exit(1);
}
console.log(`links: ${pages.length} pages, none broken`);
