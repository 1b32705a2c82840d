// Tables of `sida bench`, from its results on a processor: systems one input a batch, then batches and element types,
// then the quality of predictions.
import { sectionsOf, sectionText, sourceOf } from '../../dist/report/report.js';
import { result } from './format.mjs';

const [systems, conditions, fidelity] = ['systems', 'conditions', 'fidelity'].map((name) => result(`${name}/bench`));

/** The models of both runs; of a model that both have, the tasks of both. */
function joinedModels() {
  const models = new Map(systems.models.map((own) => [own.model.name, own]));
  for (const other of conditions.models) {
    const own = models.get(other.model.name);
    models.set(other.model.name, own ? { ...own, data: { ...other.data, ...own.data } } : other);
  }
  return [...models.values()];
}

const measurements = new Map([...conditions.measurements, ...systems.measurements].map((own) => [own.name, own]));
const joined = { ...systems, models: joinedModels(), measurements: [...measurements.values()] };

/** Times of two runs do not compare: element types are those of one run. */
const sources = [
  { file: conditions, only: /^element-types$/, from: [conditions] },
  { file: systems, only: /^paper-systems$/, from: [systems] },
  { file: joined, only: /^(?!element-types|paper-systems)/, from: [systems, conditions] },
  { file: fidelity, only: /^paper-(hits|fidelity|perplexity)$/, from: [fidelity] },
];

export const benchSections = sources.flatMap(({ file, only, from }) =>
  sectionsOf(file)
    .filter(({ id }) => only.test(id))
    .map((section) => ({ ...section, source: from.map(sourceOf).join('\n') })),
);

export const benchTables = Object.fromEntries(
  benchSections.map((section) => [`bench-${section.id}`, () => `${sectionText(section)}\n\n${section.source}`]),
);
