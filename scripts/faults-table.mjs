// Writes the tables of test/faults/results.md: the state of every row of test/faults/rows.mjs, and the last result of
// each fault, from build/faults.json (`npm run test:faults`) and build/faults-beside (sanitizers, fuzzers, GPU).
//   node scripts/faults-table.mjs [--check | --full COMMIT]
// --full says of every result of another commit that the fault was not run on this one, and fails if there is any, or a
// row without a result. Without it such results stay, each with its commit.
// --check writes nothing. It fails where a row of F1 to F50 is missing, where the state of a row is not what the
// results say, and where test/faults/README.md does not tell of a fault.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { ROWS } from '../test/faults/rows.mjs';
import { BESIDE, figuresOf, verdict } from './fault-words.mjs';

const FOLDER = 'test/faults';
const FILE = `${FOLDER}/results.md`;
const WORDS = {
  PASS: 'pass',
  FAIL: '**fail**',
  MISSED: 'holds; **a limit is missed**',
  OLD: '**not run on this commit**',
};
const byNumber = (a, b) => a.localeCompare(b, 'en', { numeric: true });
const cell = (text) => String(text).replaceAll('|', '\\|');
const line = (...cells) => `| ${cells.map(cell).join(' | ')} |`;

/** The lines of a table between its marks, without its head. */
function bodyOf(text, name) {
  const found = new RegExp(`<!-- ${name}:[^>]*-->\\n([\\s\\S]*?)<!-- end -->`).exec(text);
  if (found === null) throw new Error(`${FILE} has no table "${name}"`);
  return found[1]
    .split('\n')
    .filter((row) => row.startsWith('|'))
    .slice(2);
}

function fill(text, name, table) {
  const marks = new RegExp(`(<!-- ${name}:[^>]*-->\\n)[\\s\\S]*?(<!-- end -->)`);
  return text.replace(marks, (_, begin, end) => `${begin}${table.join('\n')}\n${end}`);
}

const cellsOf = (row) => row.slice(2, -2).split(/(?<!\\) \| /);

/** The rows that *.fault.ts files run: names of files by id. */
function filesOfIds() {
  const files = new Map();
  for (const name of readdirSync(FOLDER).filter((each) => each.endsWith('.fault.ts'))) {
    const text = readFileSync(`${FOLDER}/${name}`, 'utf8');
    const found = [...text.matchAll(/\bfault\(\s*'(\w+)'/g), ...text.matchAll(/^ {2}\['(F\d+)',/gm)];
    for (const id of new Set(found.map(([, each]) => each))) files.set(id, [...(files.get(id) ?? []), name]);
  }
  return files;
}

const tested = filesOfIds();

/** What the table says of a row, from the results of its faults. */
function stateOf({ id, where, cannot, missing }, results) {
  const own = results.filter((row) => cellsOf(row)[0] === id);
  const words = own.map((row) => cellsOf(row)[3]);
  const parts = [];
  if (words.includes(WORDS.FAIL)) parts.push(WORDS.FAIL);
  else if (words.includes(WORDS.OLD)) parts.push(WORDS.OLD);
  else if (words.includes(WORDS.MISSED)) parts.push(WORDS.MISSED);
  else if (words.length > 0) parts.push(missing === undefined ? WORDS.PASS : 'pass, in part');
  else if (cannot !== undefined) parts.push(`cannot run here: ${cannot}`);
  else if (tested.has(id) || where !== undefined) parts.push('not run yet');
  else parts.push('not yet');
  if (missing !== undefined) parts.push(missing);
  return parts.join('; ');
}

function states(results) {
  const rows = ROWS.map((row) => {
    const ran = tested.has(row.id) ? `\`npm run test:faults ${fileOf(row.id)}\`` : (row.where ?? '');
    return line(row.id, row.what, stateOf(row, results), ran);
  });
  return ['| | fault | state | run by |', '|---|---|---|---|', ...rows];
}

/** The word that picks a row's files. */
const fileOf = (id) => {
  const name = readdirSync(FOLDER).find((each) => {
    if (!each.endsWith('.fault.ts')) return false;
    const text = readFileSync(`${FOLDER}/${each}`, 'utf8');
    return new RegExp(`(fault\\(\\s*|^ {2}\\[)'${id}'`, 'm').test(text);
  });
  return /^F\d+/.exec(name)?.[0] ?? name.replace('.fault.ts', '');
};

function check(text) {
  const faults = [];
  const readme = readFileSync(`${FOLDER}/README.md`, 'utf8');
  const known = new Set(ROWS.map(({ id }) => id));
  for (let number = 1; number <= 50; number += 1) {
    if (!known.has(`F${number}`)) faults.push(`${FOLDER}/rows.mjs has no row F${number}`);
  }
  for (const id of tested.keys()) {
    if (!known.has(id)) faults.push(`${id} has a test, but no row in ${FOLDER}/rows.mjs`);
    if (!readme.includes(`| ${id} |`)) faults.push(`${id} has a test, but no line in ${FOLDER}/README.md`);
  }
  const expected = states(bodyOf(text, 'faults')).slice(2);
  const found = bodyOf(text, 'rows');
  for (const row of expected) {
    if (!found.includes(row))
      faults.push(`${FILE}: the state of ${cellsOf(row)[0]} is not what its results say`);
  }
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) console.error('Run `node scripts/faults-table.mjs`.');
  process.exitCode = faults.length === 0 ? 0 : 1;
}

function write(text, commit) {
  const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
  const faults = existsSync('build/faults.json') ? read('build/faults.json').faults : [];
  const beside = existsSync(BESIDE) ? readdirSync(BESIDE).map((name) => read(`${BESIDE}/${name}`)) : [];
  const results = new Map(bodyOf(text, 'faults').map((row) => [cellsOf(row).slice(0, 2).join(' | '), row]));
  const fresh = new Set();
  for (const result of [...faults, ...beside]) {
    const { id, fault, seconds, date, commit } = result;
    const counted = `${figuresOf(result).join('; ')} (${seconds.toFixed(0)} s)`;
    const row = line(
      id,
      fault,
      counted,
      WORDS[verdict(result)],
      `${commit ?? 'unknown'}, ${date.slice(0, 10)}`,
    );
    const key = cellsOf(row).slice(0, 2).join(' | ');
    results.set(key, row);
    fresh.add(key);
  }
  // A row of which every file ran has all of its faults anew; those of other names are gone.
  const ran = (id) =>
    tested.has(id) &&
    tested.get(id).every((file) => faults.some((each) => each.id === id && each.file === file));
  for (const [key, row] of [...results]) {
    if (!fresh.has(key) && ran(key.split(' | ', 1)[0])) results.delete(key);
    else if (commit !== undefined) results.set(key, ofCommit(row, commit));
    else if (!fresh.has(key)) console.log(`kept, not in this run: ${key}`);
  }
  const rows = [...results.values()].sort(byNumber);
  const machines = [...new Set([...faults, ...beside].map(({ machine }) => machine))];
  const known = new Set(ROWS.map(({ id }) => id));
  const unknown = rows.find((row) => !known.has(cellsOf(row)[0]));
  if (unknown !== undefined) throw new Error(`${FOLDER}/rows.mjs has no row for ${unknown.slice(0, 60)}`);
  let filled = fill(text, 'rows', states(rows));
  const head = ['| | fault | what was counted | result | commit |', '|---|---|---|---|---|'];
  const machine = machines.length === 0 ? [] : ['', `Machine of the newest: ${machines.join('; ')}.`];
  filled = fill(filled, 'faults', [...head, ...rows, ...machine]);
  writeFileSync(FILE, filled);
  if (commit !== undefined) requireAll(rows);
}

/** The row with another word for its result when that is one of another commit. */
function ofCommit(row, commit) {
  const cells = cellsOf(row);
  if (cells[4].split(',')[0] === commit) return row;
  return `| ${[...cells.slice(0, 3), WORDS.OLD, cells[4]].join(' | ')} |`;
}

function requireAll(results) {
  const left = ROWS.filter((row) => row.cannot === undefined)
    .map((row) => [row.id, stateOf(row, results)])
    .filter(([, state]) => state.includes(WORDS.OLD) || state.includes('not run yet'));
  for (const [id, state] of left) console.error(`${id}: ${state.replaceAll('*', '')}`);
  if (left.length > 0) process.exitCode = 1;
}

const text = readFileSync(FILE, 'utf8');
if (process.argv.includes('--check')) check(text);
else
  write(text, process.argv.includes('--full') ? process.argv[process.argv.indexOf('--full') + 1] : undefined);
