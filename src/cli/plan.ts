/** `sida plan`: shows where every byte would go, without allocating anything. */

import { resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { manifestParts } from '../checkpoint/manifest.js';
import {
  DEFAULT_GROUP,
  formatFlags,
  formatName,
  MADE_DTYPES,
  sameFormat,
} from '../checkpoint/weight-format.js';
import { budgetWarning } from '../config/budget.js';
import { checkPredictorDevice, WEIGHT_OPTIONS, weightChoices } from '../config/engine-config.js';
import { type OptionName, SERVE_OPTIONS, type ServeOptions } from '../config/options.js';
import { resolveOptions, type Sources } from '../config/resolve.js';
import { modelPlanner } from '../inference/model-planner.js';
import { batchLimits } from '../inference/open-engine.js';
import { type Sizes, sizesOf } from '../inference/sizes.js';
import { estimateSpeed, type MachineRates, type SpeedEstimate } from '../inference/speed-estimate.js';
import { measureDiskRate } from '../machine/disk-rate.js';
import { loadAddon } from '../native/addon.js';
import type {
  BatchLimits,
  DeviceName,
  MemoryPlan,
  ModelShape,
  PackFormats,
  WeightFormat,
} from '../native/addon-types.js';
import { expertsPerLayer, hasEncoder, kindOf } from '../native/model-shape.js';
import { formatBytes, formatLeast } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { withModelHead } from './hub-models.js';
import { tableLines } from './table.js';

export const PLAN_OPTIONS = [
  'memoryBudget',
  ...WEIGHT_OPTIONS,
  'maxBatchTokens',
  'context',
  'kvTokens',
  'kv',
  'kvWindows',
  'kvStates',
  'threads',
  'routing',
  'routingK',
  'activations',
  'device',
  'cudaGraphs',
  'predictorDevice',
] as const;

export interface Planned {
  /** Null for a pack, whose manifest names only its MoE layers. */
  shape: ModelShape | null;
  /** Whether there are no weights, so that the element types are those that the config tells. */
  fromConfig: boolean;
  plan: MemoryPlan;
  sizes: Omit<Sizes, 'plan'>;
  layers: string[];
  formats: PackFormats;
  /** A plan for each weight type of the experts. Empty for a pack, whose types are fixed. */
  choices: Choice[];
  /** See ModelPlanner. */
  weightSpeed(limits: BatchLimits): number;
}

interface Choice {
  experts: WeightFormat;
  plan: MemoryPlan;
}

interface Budget {
  /** As it was written. */
  written: string;
  bytes: number;
  fits: boolean;
  slots: number;
}

export function planCommand(): Command {
  const command = new Command('plan')
    .argument('<model>', 'a checkpoint (its config.json is enough), a GGUF file, a packed model or a name')
    .option('--json', 'print JSON')
    .option('--measure', 'measure memory and disk, and estimate tokens a second')
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  sida plan models/switch-words --memory-budget 25%\n' +
        '  sida plan models/switch-words --routing predicted --routing-k 3 --json\n' +
        '  sida plan models/olmoe-mini --measure\n' +
        '  sida plan Qwen/Qwen3-30B-A3B --memory-budget 20GiB',
    )
    .action(async (model: string, values: Record<string, unknown>) => {
      const sources = { flags: givenFlags(values), env: process.env };
      const fits = await withModelHead(model, (dir) => planOne(model, dir, sources, values));
      if (!fits) process.exitCode = EXIT.usage;
    });
  return addFlags(command, ['packDir', ...PLAN_OPTIONS]);
}

export type PlanOptions = Pick<ServeOptions, (typeof PLAN_OPTIONS)[number]>;

/** Prints the plan of one model, and resolves with whether its budget suffices. */
async function planOne(
  name: string,
  dir: string,
  sources: Sources,
  values: Record<string, unknown>,
): Promise<boolean> {
  const options = resolveOptions(PLAN_OPTIONS, sources);
  const planned = await planModel(resolve(dir), options);
  const budget = budgetOf(options.memoryBudget, planned.sizes.budgetBytes, planned);
  const measured =
    values.measure === true && budget.fits ? await measure(planned, options, sources) : undefined;
  const estimate = measured && estimateSpeed(planned.plan, budget.slots, planned.shape, measured);
  if (values.json === true) {
    printJson({
      ...asJson(planned, options, budget),
      ...(measured && { measured }),
      ...(estimate && { estimate }),
    });
  } else {
    printLines(
      ...describeAll(planned, options, budget),
      ...(measured ? describeSpeed(measured, estimate) : []),
      ...(budget.fits ? [`Serve it: ${serveCommand(name, sources)}`] : []),
    );
  }
  return budget.fits;
}

function budgetOf(written: string, bytes: number, { plan }: Planned): Budget {
  return { written, bytes, fits: bytes >= plan.smallest, slots: slotsWithin(bytes, plan) };
}

function asJson(planned: Planned, { kv }: PlanOptions, { written: _, ...budget }: Budget) {
  const { sizes, weightSpeed: _speed, ...rest } = planned;
  const { contextTokens, kvTokens, activations, freeBytes } = sizes;
  const choices = slotsOfChoices(planned, budget.bytes);
  return { ...rest, contextTokens, kvTokens, kv, activations, freeBytes, choices, budget };
}

function describeAll(planned: Planned, options: PlanOptions, budget: Budget): string[] {
  return [
    ...(planned.shape === null ? [] : [describeShape(planned.shape), '']),
    ...(planned.fromConfig
      ? ['Planned from config.json alone; the weights may have other element types', '']
      : []),
    ...describe(planned, options),
    '',
    ...describeChoices(planned, budget.bytes),
    describeContext(planned),
    ...verdict(budget, planned),
  ];
}

/** The rates of this machine's memory, and of the disk of packs in reads of one expert. */
async function measure(planned: Planned, options: PlanOptions, sources: Sources): Promise<MachineRates> {
  const { packDir } = resolveOptions(['packDir'], sources);
  const limits = batchLimits({ ...options, ...planned.sizes });
  return { weights: planned.weightSpeed(limits), disk: await measureDiskRate(packDir, planned.plan.slot) };
}

function describeSpeed({ weights, disk }: MachineRates, estimate: SpeedEstimate | undefined): string[] {
  const rate = (bytes: number) => `${(bytes / 1e9).toPrecision(3)} GB/s`;
  const rates = `Measured: ${rate(weights)} of weights in memory, ${rate(disk)} from the disk of packs.`;
  if (estimate === undefined) return [rates];
  const { tokensPerSecond, mostTokensPerSecond, bound, computeMs, loadMs, mostSpeedup } = estimate;
  const round = (rate: number) => rate.toFixed(rate < 10 ? 1 : 0);
  const repeated =
    loadMs === 0 ? '' : `, up to ${round(mostTokensPerSecond)} where tokens repeat their experts`;
  return [
    rates,
    `Estimate for one request: ${round(tokensPerSecond)} tokens/s where routing is even${repeated}.`,
    `Bound by the ${bound}: a token takes ${computeMs.toFixed(2)} ms in memory and ${loadMs.toFixed(2)} ms for loads.`,
    ...(loadMs === 0
      ? []
      : [
          `Prediction could make it at most ${mostSpeedup.toFixed(2)} times as fast, if every load were foreseen.`,
        ]),
  ];
}

/** With the flags that were given, since others would give another plan. */
function serveCommand(name: string, { flags }: Sources): string {
  const given = Object.entries(flags).map(([option, value]) => {
    const flag = option === 'config' ? option : SERVE_OPTIONS[option as OptionName].flag;
    return ` --${flag} ${value}`;
  });
  return `sida serve ${name}${given.join('')}`;
}

/** The names of the MoE layers in a pack's manifest. */
const layersSchema = z.object({ experts: z.object({ layers: z.array(z.string()) }) });

export async function planModel(dir: string, options: PlanOptions): Promise<Planned> {
  checkPredictorDevice(options);
  const { formats, checkpoint, plan: planOf, weightSpeed } = await modelPlanner(dir, weightChoices(options));
  const { plan, ...sizes } = sizesOf(planOf, options, formats);
  if (checkpoint === undefined) {
    const { experts } = manifestParts(dir, layersSchema)!;
    return {
      ...{ shape: null, fromConfig: false, plan, sizes, layers: experts.layers, formats, choices: [] },
      weightSpeed,
    };
  }
  const { lossless, shape, fromConfig } = checkpoint;
  const limits = batchLimits({ ...options, ...sizes });
  const group = formats.experts.group ?? DEFAULT_GROUP;
  const packable: WeightFormat[] = MADE_DTYPES.map((dtype) =>
    dtype === 'int4' ? { dtype, group } : { dtype },
  );
  // A type that the checkpoint has and sida does not make comes first.
  if (!packable.some((format) => format.dtype === lossless.experts.dtype)) packable.unshift(lossless.experts);
  const choices = packable.map((experts) => ({ experts, plan: planOf(limits, experts) }));
  return { shape, fromConfig, plan, sizes, layers: shape.moeLayers, formats, choices, weightSpeed };
}

/** The number of expert slots within a budget of `bytes`. It is 0 below the smallest workable budget. */
export function slotsWithin(bytes: number, plan: MemoryPlan): number {
  if (bytes < plan.smallest) return 0;
  return Math.min(plan.experts, Math.floor((bytes - plan.fixed) / plan.slot));
}

export function describeShape(shape: ModelShape): string {
  const { family, stacks, topK, moeLayers, contextTokens } = shape;
  const perLayer = [expertsPerLayer(shape)].flat();
  const [fewest, most] = [Math.min(...perLayer), Math.max(...perLayer)];
  const experts = fewest < most ? `${fewest} to ${most}` : most;
  const layers = stacks.map(({ name, layers: count }) => `${count} ${name} layers`).join(' and ');
  const context = contextTokens === null ? '' : `, a context of ${contextTokens} tokens`;
  return `${family}, ${kindOf(shape)}: ${layers}, ${moeLayers.length} of them MoE with ${experts} experts, ${topK} for a token${context}`;
}

function describe({ plan, sizes, layers, formats }: Planned, { kv, predictorDevice }: PlanOptions): string[] {
  const row = (name: string, bytes: number, note = '') => [name, formatBytes(bytes), String(bytes), note];
  const slotOf = new Set(plan.blockBytes).size > 1 ? 'the largest expert' : 'one expert';
  const tokenSlots = plan.tokenDemand / plan.slot;
  return tableLines('lrrl', [
    ['', 'size', 'bytes', ''],
    ...(plan.driver > 0 ? [row('GPU driver', plan.driver, contextNote(predictorDevice))] : []),
    row('dense weights', plan.dense, formatName(formats.dense)),
    row('routers', plan.routers),
    row('KV cache', plan.kvCache, `${sizes.kvTokens} tokens, ${kv}`),
    row('workspace', plan.workspace, `activations ${sizes.activations}`),
    ...(plan.hostWorkspace > 0
      ? [row('host workspace', plan.hostWorkspace, 'of --host-budget, where the CPU computes experts')]
      : []),
    row('one slot', plan.slot, `${slotOf}, ${formatName(formats.experts)}`),
    ...equalLayers(layers, plan).map(({ first, last, count, experts, bytes }) =>
      row(
        `experts ${first}${count > 1 ? ` to ${last}` : ''}`,
        count * experts * bytes,
        `${count > 1 ? `${count} layers of ` : ''}${experts} experts`,
      ),
    ),
    row("one token's demand", plan.tokenDemand, `${tokenSlots} slots for its experts`),
    row('recency floor', plan.recencyFloor, 'below it an LRU cache never hits for a lone generation'),
    row('smallest', plan.smallest, 'everything but the experts, and one slot'),
    row('resident', plan.resident, 'every expert in a slot'),
  ]);
}

function contextNote(predictorDevice: DeviceName): string {
  const { device } = loadAddon().cuda();
  const size = device && formatBytes(device.contextBytes);
  const context = device?.contextMeasured
    ? `a context of ${size}, measured`
    : 'a context of the usual size; none was measured';
  return predictorDevice === 'cuda' ? `${context}, and the predictor's networks` : context;
}

/** Neighbouring layers with as many experts of the same size. */
function equalLayers(layers: readonly string[], { blockBytes, layerExperts }: MemoryPlan) {
  const runs: { first: string; last: string; count: number; experts: number; bytes: number }[] = [];
  for (const [i, layer] of layers.entries()) {
    const run = runs.at(-1);
    const [bytes, experts] = [blockBytes[i]!, layerExperts[i]!];
    if (run !== undefined && run.bytes === bytes && run.experts === experts) {
      run.last = layer;
      run.count += 1;
    } else runs.push({ first: layer, last: layer, count: 1, experts, bytes });
  }
  return runs;
}

/** Bytes of every expert. A GGUF file can have larger ones in some layers; a slot for each would be more bytes. */
function allExperts({ layerExperts, blockBytes }: MemoryPlan): number {
  return blockBytes.reduce((sum, bytes, layer) => sum + bytes * layerExperts[layer]!, 0);
}

function slotsOfChoices({ choices }: Planned, bytes: number): (Choice & { slots: number })[] {
  return choices.map((choice) => ({ ...choice, slots: slotsWithin(bytes, choice.plan) }));
}

function describeChoices(planned: Planned, bytes: number): string[] {
  if (planned.choices.length === 0) return [];
  const rows = slotsOfChoices(planned, bytes).map(({ experts, plan, slots }) => [
    `--experts ${formatFlags(experts)}`,
    formatBytes(plan.slot),
    formatBytes(allExperts(plan)),
    formatBytes(plan.smallest),
    formatBytes(plan.resident),
    String(slots),
    sameFormat(experts, planned.formats.experts) ? 'as planned above' : '',
  ]);
  const head = [
    '',
    'one expert',
    'all experts',
    'smallest',
    'resident',
    `slots in ${formatBytes(bytes)}`,
    '',
  ];
  return [...tableLines('lrrrrrl', [head, ...rows]), ''];
}

function describeContext({ shape, sizes: { contextTokens, freeBytes } }: Planned): string {
  const free = Number.isFinite(freeBytes) ? ` This machine has ${formatBytes(freeBytes)} free.` : '';
  if (shape !== null && hasEncoder(shape)) return free.trim();
  return `A request may have ${contextTokens} tokens, prompt and answer together.${free}`;
}

function verdict({ written, bytes, fits, slots }: Budget, { plan, sizes }: Planned): string[] {
  const size = written.endsWith('%') ? `${written}, ${formatBytes(bytes)}` : formatBytes(bytes);
  if (!fits) {
    return [`A budget of ${size} is too small, the smallest that works is ${formatLeast(plan.smallest)}.`];
  }
  const warning = budgetWarning(bytes, sizes.freeBytes);
  const has = `A budget of ${size} has ${slots} ${slots === 1 ? 'slot' : 'slots'} for ${plan.experts} experts.`;
  return warning === undefined ? [has] : [has, `${warning}.`];
}
