#!/usr/bin/env node
/**
 * Checks that prose ends at 120 columns: comments in code, and lines of Markdown outside of tables, code and
 * generated parts.
 *   node scripts/check-lines.mjs
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const MOST = 120;
const CODE = /\.(ts|mjs|cc|h|cu|cuh|lua)$/;
const COMMENT = /^\s*(\/\/|\*|\/\*|--)/;
/** Generated, or written by others. */
const LEFT_OUT = /third_party|^bench\/results|^models\/.*\/predictor\/README\.md$|^native\/emulation/;

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
}
console.log(`lines: ${files.length} files, ${count} too long`);
process.exitCode = count > 0 ? 1 : 0;
