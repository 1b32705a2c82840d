#!/usr/bin/env node
/**
 * Checks how the source folders import each other, and how those of native/src include each other:
 *   node scripts/import-rules.mjs [--json] [--graph]
 * Fails when files or folders import each other in a circle, when src/ imports anything of bench/, and when the
 * scheduler or the inference thread imports more of the predictor than its door. Imports of types count: a reader
 * follows them like any other.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const BENCH = join(ROOT, 'bench');
/** The product and the laboratory, which imports what the product builds. */
const SOURCES = [join(ROOT, 'src'), join(BENCH, 'src')];
const NATIVE = join(ROOT, 'native/src');

/** Every source file below `directory`. */
function sourceFiles(directory) {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return sourceFiles(path);
    return /\.(tsx?|h|cc|cuh?)$/.test(entry.name) ? [path] : [];
  });
}

/** The files that `file` imports by a relative path, or includes by a path below native/src. */
function importsOf(file) {
  const text = readFileSync(file, 'utf8');
  if (!/\.tsx?$/.test(file))
    return [...text.matchAll(/^#include "([^"]+)"/gm)]
      .map(([, path]) => join(NATIVE, path))
      .filter((path) => existsSync(path));
  const paths = [
    ...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g),
    ...text.matchAll(/new URL\(\s*'(\.[^']+\.js)'/g),
  ];
  return paths
    .map(([, path]) => sourceOf(resolve(dirname(file), path)))
    .filter((path) => existsSync(path) && statSync(path).isFile());
}

/** The TypeScript file that a built one comes from, or that an import with `.js` means. */
function sourceOf(path) {
  const built = [ROOT, BENCH].find((root) => path.startsWith(`${join(root, 'dist')}/`));
  const source = built === undefined ? path : join(built, 'src', relative(join(built, 'dist'), path));
  const typed = source.replace(/\.js$/, '.ts');
  return existsSync(typed) ? typed : typed.replace(/ts$/, 'tsx');
}

/** Groups of files that reach each other (Tarjan's strongly connected components of more than one file). */
export function circles(graph) {
  const order = new Map();
  const lowest = new Map();
  const stack = [];
  const found = [];
  const visit = (node) => {
    order.set(node, order.size);
    lowest.set(node, order.get(node));
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) lowest.set(node, Math.min(lowest.get(node), lowest.get(next)));
    }
    if (lowest.get(node) !== order.get(node)) return;
    const group = stack.splice(stack.indexOf(node));
    if (group.length > 1) found.push(group);
  };
  for (const node of graph.keys()) if (!order.has(node)) visit(node);
  return found;
}

/** Where the paths of two files part: the folder, or file, of each just below their common folder. */
function partOf(from, to) {
  const [a, b] = [relative(ROOT, from).split('/'), relative(ROOT, to).split('/')];
  const at = a.findIndex((segment, i) => segment !== b[i]);
  return [a.slice(0, at + 1).join('/'), b.slice(0, at + 1).join('/')];
}

function folderPairs(graph) {
  const edges = new Map();
  for (const [file, imports] of graph) {
    for (const imported of imports) {
      const [from, to] = partOf(file, imported);
      const key = `${from} ${to}`;
      edges.set(key, [...(edges.get(key) ?? []), `${relative(ROOT, file)} -> ${relative(ROOT, imported)}`]);
    }
  }
  const pairs = [];
  for (const [key, forward] of edges) {
    const [from, to] = key.split(' ');
    const back = edges.get(`${to} ${from}`);
    const folders = !from.includes('.') && !to.includes('.');
    if (folders && back !== undefined && from < to) pairs.push({ folders: [from, to], forward, back });
  }
  return { pairs, edges };
}

/** Circles of folders at any depth: each imports the next one. A file beside folders belongs to none of them. */
function folderCircles(edges) {
  const folders = new Map();
  for (const key of edges.keys()) {
    const [from, to] = key.split(' ');
    if (from.includes('.') || to.includes('.')) continue;
    folders.set(from, [...(folders.get(from) ?? []), to]);
    if (!folders.has(to)) folders.set(to, []);
  }
  return circles(folders);
}

const graph = new Map([...SOURCES, NATIVE].flatMap(sourceFiles).map((file) => [file, importsOf(file)]));
const found = circles(graph).map((group) => group.map((file) => relative(ROOT, file)).sort());
const { pairs, edges } = folderPairs(graph);
const wide = folderCircles(edges);
/** Imports of the laboratory by the product. */
const upward = [...edges]
  .filter(([key]) => !key.startsWith('bench') && key.split(' ')[1].startsWith('bench'))
  .flatMap(([, lines]) => lines);
/** Imports of the predictor by those who see it as src/forecast describes it. */
const past = [...edges]
  .filter(([key]) => /^src\/(scheduler|inference) src\/predictor$/.test(key))
  .flatMap(([, lines]) => lines)
  .filter((line) => !line.endsWith(' -> src/predictor/open-step-tables.ts'));

if (process.argv.includes('--json')) {
  console.log(
    JSON.stringify({ files: graph.size, circles: found, folderCircles: wide, pairs, upward, past }, null, 2),
  );
} else {
  for (const group of found) console.log(`circle: ${group.join(', ')}`);
  for (const group of wide) console.log(`circle of folders: ${group.join(', ')}`);
  for (const { folders, forward, back } of pairs) {
    console.log(`folders that import each other: ${folders.join(' and ')}`);
    for (const line of [...forward, ...back]) console.log(`  ${line}`);
  }
  for (const line of upward) console.log(`the product imports the laboratory: ${line}`);
  for (const line of past) console.log(`past the predictor's door: ${line}`);
  if (process.argv.includes('--graph')) {
    const targets = new Map();
    for (const key of edges.keys()) {
      const [from, to] = key.split(' ');
      targets.set(from, [...(targets.get(from) ?? []), to]);
    }
    for (const [from, to] of [...targets].sort()) console.log(`${from}: ${to.sort().join(' ')}`);
  }
  console.log(
    `${graph.size} files, ${found.length} circles of files, ${wide.length} of folders, ` +
      `${pairs.length} pairs of folders that import each other, ` +
      `${upward.length} imports of the laboratory by the product, ${past.length} past the predictor's door`,
  );
}
process.exitCode = found.length + wide.length + pairs.length + upward.length + past.length > 0 ? 1 : 0;
