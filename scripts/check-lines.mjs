#!/usr/bin/env node
/**
 * Checks that prose ends at 120 columns: comments in code, and lines of Markdown outside of tables, code and
 * generated parts. Refuses words in pages for users that no paper and no other engine uses.
 *   node scripts/check-lines.mjs
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const MOST = 120;
const CODE = /\.(ts|mjs|cc|h|cu|cuh|lua)$/;
const COMMENT = /^\s*(\/\/|\*|\/\*|--)/;
/** Generated, or written by others. */
const LEFT_OUT = /third_party|^bench\/results|^models\/.*\/predictor\/README\.md$/;

const USER_PAGE = /^(docs\/.*|README|CONTRIBUTING|SECURITY|CHANGELOG)\.md$/;
const DIALECT =
  /\b(whoever|dear(er|est)?|anew|foretold|told apart|rightly|owes?|gives? way|what is no|of which|beside|(the same|those|that) of)\b/i;

function dialect(file) {
  if (!USER_PAGE.test(file)) return [];
  const text = readFileSync(file, 'utf8').replace(/<!-- (?!end)[\s\S]*?<!-- end -->/g, (part) =>
    part.replace(/[^\n]/g, ''),
  );
  return text.split('\n').flatMap((line, i) => (DIALECT.test(line) ? [[i + 1, DIALECT.exec(line)[0]]] : []));
}

function longLines(file) {
  let fenced = false;
  let made = false;
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, i) => {
      if (CODE.test(file)) return line.length > MOST && COMMENT.test(line) ? [i + 1] : [];
      if (/^ {0,3}(```|~~~)/.test(line)) fenced = !fenced;
      if (/^<!-- (?!end)[\w-]+/.test(line)) made = true;
      if (line.startsWith('<!-- end')) made = false;
      const prose =
        !fenced && !made && !line.startsWith('|') && !/^ {4}/.test(line) && !/^\[?!?\[/.test(line);
      return prose && line.length > MOST ? [i + 1] : [];
    });
}

const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => (CODE.test(file) || file.endsWith('.md')) && !LEFT_OUT.test(file));
let count = 0;
for (const file of files) {
  for (const line of longLines(file)) {
    console.error(`${file}:${line}: longer than ${MOST} columns`);
    count += 1;
  }
  for (const [line, word] of file.endsWith('.md') ? dialect(file) : []) {
    console.error(`${file}:${line}: "${word}": name the thing, in a word of the field`);
    count += 1;
  }
}
console.log(`lines: ${files.length} files, ${count} faults`);
process.exitCode = count > 0 ? 1 : 0;
