/** Static against dynamic gating: what computing every expert at a fixed capacity costs. */
import type { GatedBatch, GatedLayer } from '../studies/gating.js';
import type { BenchFile } from './bench-file.js';
import { barChart } from './charts.js';
import { percent } from './format.js';
import { TOWARDS } from './paper.js';
import type { Section } from './section.js';

const COLOUR = { scale: { range: ['#0072b2', '#e69f00', '#d55e00', '#cc79a7', '#56b4e9', '#8c564b'] } };

export function gatingSection({ gating }: BenchFile): Section[] {
  if (!gating) return [];
  const { layers, dModel, dFf, threads, machine, commit } = gating;
  const [shown] = layers;
  if (shown === undefined) return [];
  return [
    {
      id: 'gating',
      title: 'Dynamic against static gating',
      beside: `${TOWARDS}, section V`,
      about: [
        `One MoE layer of ${dModel} × ${dFf}, every expert in memory, ${threads} threads, routes of recorded runs. Dynamic: only experts that have tokens compute, and only those rows. Static: every expert computes a fixed number of rows, padded with zeros, and tokens beyond it are dropped; "drops none" is the least capacity that loses nothing.`,
      ],
      chart: barChart({
        title: 'Time of a MoE layer with static gating, over dynamic gating',
        subtitle: layerTitle(shown),
        rows: shown.runs.flatMap((run) =>
          run.static.map(({ factor, ms }) => ({
            group: `${run.tokens} tokens`,
            series: factorTitle(factor),
            value: ms / run.dynamicMs,
          })),
        ),
        groupTitle: 'tokens of the batch',
        valueTitle: 'time, dynamic = 1',
        legend: 'capacity factor',
        colour: COLOUR,
      }),
      tables: [{ head: HEAD, rows: layers.flatMap(rowsOf) }],
      reading: [
        `Measured by \`node bench/scripts/static-gating/gating.mjs\` at commit ${commit} on ${machine}.`,
      ],
    },
  ];
}

const HEAD = [
  'routes',
  'tokens',
  'experts used / most tokens of one',
  'dynamic, ms',
  'capacity factor',
  'dropped',
  'static time / dynamic',
  'static buffers / dynamic',
];

function rowsOf(layer: GatedLayer): string[][] {
  return layer.runs.flatMap((run) => run.static.map((gated) => rowOf(layer, run, gated)));
}

function rowOf(layer: GatedLayer, run: GatedBatch, gated: GatedBatch['static'][number]): string[] {
  return [
    layerTitle(layer),
    String(run.tokens),
    `${run.expertsUsed} / ${run.mostTokens}`,
    run.dynamicMs.toFixed(1),
    factorTitle(gated.factor),
    percent(gated.dropped),
    `${(gated.ms / run.dynamicMs).toFixed(2)}×`,
    `${(gated.bytes / run.dynamicBytes).toFixed(1)}×`,
  ];
}

function layerTitle({ name, experts, k, dtype }: GatedLayer): string {
  return `${name}, ${experts} experts, top-${k}, ${dtype}`;
}

function factorTitle(factor: number): string {
  return factor === 0 ? 'drops none' : String(factor);
}
