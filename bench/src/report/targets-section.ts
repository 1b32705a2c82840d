/**
 * The targets that the laboratory measures: P5 to P13, P16, P17 and P20 to P23 with their figures, controls and
 * commands, and those of speed for each kind of processor.
 */
import type { BenchFile } from './bench-file.js';
import type { Section, Table } from './section.js';
import { measuredTargets } from './targets/measured-targets.js';
import { qualityTargets } from './targets/quality-targets.js';
import { type ScriptResults, scriptTargets } from './targets/script-targets.js';
import { type SpeedResults, speedTargets } from './targets/speed-targets.js';
import { TARGET_HEAD, type TargetRow, targetCells } from './targets/target-row.js';

export interface TargetResults extends ScriptResults {
  speed?: SpeedResults;
  /** Of processors with AMX, which count before those of `speed`. */
  speedWithAmx?: SpeedResults;
}

export function targetsSection(
  file: BenchFile,
  { speed = {}, speedWithAmx = {}, ...scripts }: TargetResults,
): Section {
  const numberOf = ({ target }: TargetRow) => Number(target.slice(1));
  const rows = [...measuredTargets(file), ...qualityTargets(file), ...scriptTargets(scripts)].toSorted(
    (a, b) => numberOf(a) - numberOf(b),
  );
  return {
    id: 'targets',
    title: 'The targets',
    about: [
      'One input after the other, fewer experts than all on the device; every row counts, at its worst.',
    ],
    tables: [
      table('Prediction and memory', rows),
      table('Speed, processors without AMX', speedTargets(speed, false)),
      table('Speed, processors with AMX', speedTargets({ ...speed, ...given(speedWithAmx) }, true)),
    ],
    reading: [
      '`replay` has the true routing: what it misses, no predictor can reach. A control should miss the target; where it reaches it too, the figure says nothing. `cannot tell`: the control lies within noise. `not measured`: no result has it. A command measures the row that decides, which is the worst; without `--only` it measures them all.',
      'What hash building takes away is measured against `replay` in the same row, which reads its tables and computes none. Where every expert has a slot no tables are built, and nothing is taken.',
    ],
  };
}

function given(results: SpeedResults): SpeedResults {
  return Object.fromEntries(Object.entries(results).filter(([, result]) => result !== undefined));
}

function table(caption: string, rows: readonly TargetRow[]): Table {
  return { caption, head: TARGET_HEAD, rows: rows.map(targetCells) };
}
