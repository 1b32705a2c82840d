/** All parts of the report, in order. */
import type { BenchFile } from './bench-file.js';
import { budgetSections, comparisonSections } from './budget-sections.js';
import { checkBounds } from './check-bounds.js';
import { breakdownSections, dtypeSection, memorySection, servingSections } from './cost-sections.js';
import { gatingSection } from './gating-section.js';
import { headlineSection } from './headline-section.js';
import { meaningSection } from './meaning-section.js';
import { predictorSections } from './predictor-sections.js';
import { routingSections } from './routing-sections.js';
import type { Section } from './section.js';
import { type TargetResults, targetsSection } from './targets-section.js';

/**
 * `scripts`: results of smaller measurements for the target table, if they are at hand. Throws cannot_run if a
 * measurement beats a bound.
 */
export function sectionsOf(file: BenchFile, scripts: TargetResults = {}): Section[] {
  checkBounds(file.measurements);
  return [
    meaningSection(file),
    headlineSection(file),
    targetsSection(file, scripts),
    ...comparisonSections(file),
    ...budgetSections(file),
    ...breakdownSections(file),
    ...servingSections(file),
    ...dtypeSection(file),
    ...gatingSection(file),
    memorySection(file),
    ...routingSections(file),
    ...predictorSections(file),
  ];
}
