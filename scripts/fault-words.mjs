// How the result of a fault reads, in the terminal and in the table.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';

export function verdict({ passed, limits }) {
  if (!passed) return 'FAIL';
  return limits.every(({ met }) => met) ? 'PASS' : 'MISSED';
}

export function figuresOf({ figures, limits }) {
  return [...figures, ...limits.map(limitWords)];
}

function limitWords({ what, value, limit, unit, least, met }) {
  const number = Number(value.toFixed(Math.abs(value) < 10 ? 2 : 0));
  return `${what} ${number} ${unit} (${met ? '' : 'missed: '}${least ? '≥' : '≤'} ${limit})`;
}

/** When, of which commit and where a result was made. */
export function thisRun() {
  const git = spawnSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' });
  return {
    date: new Date().toISOString(),
    commit: git.status === 0 ? git.stdout.trim() : null,
    machine: `${cpus()[0].model.trim()}, ${cpus().length} cores, Linux ${release().split('-')[0]}, Node ${process.version}`,
  };
}

/** Results of what other commands than `npm run test:faults` run. */
export const BESIDE = 'build/faults-beside';

/** Leaves such a result for scripts/faults-table.mjs. `file` stands for the name of a fault's file. */
export function leaveBeside(result) {
  mkdirSync(BESIDE, { recursive: true });
  const text = JSON.stringify({ ...result, limits: [], ...thisRun() }, null, 2);
  writeFileSync(`${BESIDE}/${result.fault.replaceAll(/\W+/g, '-')}.json`, `${text}\n`);
}
