/**
 * The targets that the laboratory measures: P6 to P13, P16, P17 and P20 to P22, with their figures, controls and
 * commands.
 */
import type { BenchFile } from './bench-file.js';
import type { Section } from './section.js';
import { measuredTargets } from './targets/measured-targets.js';
import { qualityTargets } from './targets/quality-targets.js';
import { type ScriptResults, scriptTargets } from './targets/script-targets.js';
import { TARGET_HEAD, targetCells } from './targets/target-row.js';

export function targetsSection(file: BenchFile, scripts: ScriptResults): Section {
  const rows = [...measuredTargets(file), ...qualityTargets(file), ...scriptTargets(scripts)];
  return {
    id: 'targets',
    title: 'The targets',
    about: [
      'One input after the other, fewer experts than all on the device; every row counts, at its worst.',
    ],
    tables: [{ head: TARGET_HEAD, rows: rows.map(targetCells) }],
    reading: [
      '`replay` has the true routing: what it misses, no predictor can reach. A control should miss the target; where it reaches it too, the figure says nothing. `cannot tell`: the control lies within noise. `not measured`: no result has it. A command measures the row that decides, which is the worst; without `--only` it measures them all.',
      'What hash building takes away is measured against `replay` in the same row, which reads its tables and computes none. Where every expert has a slot no tables are built, and nothing is taken.',
    ],
  };
}
