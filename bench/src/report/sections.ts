/** All parts of the report, in order. */
import type { BenchFile } from './bench-file.js';
import { budgetSections, comparisonSections } from './budget-sections.js';
import { checkBounds } from './check-bounds.js';
import { breakdownSections, dtypeSection, memorySection, servingSections } from './cost-sections.js';
import { gatingSection } from './gating-section.js';
import { headlineSection } from './headline-section.js';
import { predictorSections } from './predictor-sections.js';
import { routingSections } from './routing-sections.js';
import type { Section } from './section.js';

/** Throws cannot_run if a measurement beats a bound. */
export function sectionsOf(file: BenchFile): Section[] {
  checkBounds(file.measurements);
  return [
    headlineSection(file),
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
