/** The SiDA paper's headline ratios beside ours: same budget, same machine. */
import { type BenchFile, type MeasurementSummary, perSecond } from './bench-file.js';
import { DASH, linkTitle, percent, shareName, times } from './format.js';
import { type Group, modelTitle, oneByOne, usualGroups } from './groups.js';
import { HEADLINES, SIDA } from './paper.js';
import type { Section } from './section.js';

const OURS = ['lstm', 'attention'] as const;

export function headlineSection(file: BenchFile): Section {
  const groups = usualGroups(file.measurements).filter(
    (group) => oneByOne(group) && group.scenario.data === 'sst2' && group.resident !== undefined,
  );
  return {
    id: 'headlines',
    title: 'Headline ratios: same budget, same machine',
    beside: SIDA,
    about: [
      'The baseline of the paper moves whole layers under the memory limit; ours is `layer-streaming`. Our systems are `lstm`, with the paper’s network, and `attention`: exact answers, unlike the paper’s.',
    ],
    tables: [
      {
        caption: 'As the paper prints them',
        head: ['what', 'paper'],
        rows: HEADLINES.map(({ what, value }) => [what, value]),
      },
      {
        caption: 'Measured here, SST-2, batch 1',
        head: [
          'model',
          'link',
          'budget',
          'system',
          'throughput over layer streaming',
          'throughput over on-demand LRU',
          'latency, share of layer streaming',
          'device memory saved',
          'throughput, share of resident',
        ],
        rows: groups.flatMap(rowsOf),
      },
    ],
    reading: [
      'Throughput and latency: the paper measures GPUs with experts in host memory behind PCIe; here a CPU computes and experts come from disk or over a simulated link, which each row names.',
      'Models: the paper’s are fine-tuned checkpoints; Switch-base shapes here have random weights, whose routing has less structure to learn and spreads over more experts.',
      'Memory saved: ours counts the whole device (dense weights, KV cache and workspace included) against the resident run; the paper counts weights.',
      'Answers: the paper routes by prediction and loses accuracy; here the model’s routers decide and answers are those of the resident run, bit for bit.',
    ],
  };
}

function rowsOf({ measurements, resident, scenario }: Group): string[][] {
  const shares = [...new Set(measurements.map((measurement) => measurement.scenario.share))].filter(
    (share) => share < 1,
  );
  return shares.flatMap((share) => {
    const at = (name: string) =>
      measurements.find((measurement) => measurement.system === name && measurement.scenario.share === share);
    const exact = OURS.map(at).filter((measurement) => measurement !== undefined);
    const predicted = at('predicted');
    const streaming = at('layer-streaming');
    // Where no exact system was measured, the one that routes by predictions stands in.
    return (exact.length > 0 || predicted === undefined ? exact : [predicted]).map((own) => {
      const over = (other: MeasurementSummary | undefined) =>
        other ? times(perSecond(own) / perSecond(other)) : DASH;
      return [
        modelTitle(scenario.model),
        linkTitle(scenario),
        shareName(share),
        own.system,
        over(streaming),
        over(at('lru')),
        streaming ? percent(own.p50Ms / streaming.p50Ms, 0) : DASH,
        percent(1 - own.budgetBytes / resident!.budgetBytes, 0),
        times(perSecond(own) / perSecond(resident!)),
      ];
    });
  });
}
