/** Throughput by element type and by experts at work. */
import type { MeasurementSummary } from './bench-file.js';
import { bytes, dataTitle, figure, modelTitle } from './format.js';
import type { Section } from './section.js';

/** Every expert resident, batches of several sizes. */
export function elementTypesSection(measurements: readonly MeasurementSummary[]): Section {
  const resident = measurements.filter(({ system, scenario }) => system === 'resident' && scenario.link === 'disk');
  const batched = resident.filter(({ scenario: { model, batch } }) =>
    resident.some(({ scenario: other }) => other.model === model && other.batch !== batch),
  );
  return {
    id: 'element-types',
    title: 'Throughput by element type and experts at work, every expert resident',
    beside:
      '"Who Says Elephants Can\'t Run" (Kim et al., 2022, arXiv:2211.10017), which claims up to 26× the throughput of its baseline on GPUs, and almost one eighth of the float32 size with 4-bit experts',
    tables: [
      {
        head: 'model | task | inputs | batch | experts at work a pass | input tokens/s | p50, ms | experts’ bytes',
        rows: batched.map((own) => [
          modelTitle(own.scenario.model),
          dataTitle(own.scenario.data),
          String(own.sentences),
          String(own.scenario.batch),
          (own.needed / own.passes).toFixed(1),
          figure((1000 * own.tokens) / own.wallMs),
          figure(own.p50Ms),
          bytes(own.slotBytes * own.experts),
        ]),
      },
    ],
  };
}
