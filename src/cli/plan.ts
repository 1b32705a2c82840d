/** `sida plan`: shows where every byte would go, without allocating anything. */

import { resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { configFormats, hasOnlyConfig, planOfConfig } from '../checkpoint/config-plan.js';
import { isPack, MANIFEST } from '../checkpoint/manifest.js';
import { preparedFormats } from '../checkpoint/prepare-pack.js';
import {
  COPIED_DTYPES,
  DEFAULT_GROUP,
  EXPERT_DTYPES,
  formatFlags,
  formatName,
  resolveFormats,
  sameFormat,
} from '../checkpoint/weight-format.js';
import { budgetBytes, splitBudget } from '../config/budget.js';
import { WEIGHT_OPTIONS, weightChoices } from '../config/engine-config.js';
import { MODEL_OPTIONS } from '../config/model-options.js';
import type { ServeOptions } from '../config/options.js';
import { resolveOptions, type Sources } from '../config/resolve.js';
import { resolveModels } from '../config/served-models.js';
import { readJsonFile } from '../files/json-file.js';
import { batchLimits } from '../inference/open-engine.js';
import { isEncoderDecoder } from '../model/model-shape.js';
import { loadAddon } from '../native/addon.js';
import type {
  BatchLimits,
  MemoryPlan,
  ModelShape,
  PackFormats,
  WeightFormat,
} from '../native/addon-types.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { withModelHeads } from './hub-models.js';
import { tableLines } from './table.js';

const OPTIONS = [
  'memoryBudget',
  ...WEIGHT_OPTIONS,
  'maxBatchTokens',
  'kvTokens',
  'kv',
  'kvWindows',
  'threads',
  'routing',
  'routingK',
  'activations',
  'device',
] as const;

interface Planned {
  /** Null for a pack, whose manifest names only its MoE layers, and for a config without weights. */
  shape: ModelShape | null;
  /** Whether there are no weights, so that the element types are those that the config tells. */
  fromConfig: boolean;
  plan: MemoryPlan;
  layers: string[];
  formats: PackFormats;
  /** A plan for each weight type of the experts. Empty for a pack, whose types are fixed. */
  choices: Choice[];
}

interface Choice {
  experts: WeightFormat;
  plan: MemoryPlan;
}

interface Budget {
  bytes: number;
  fits: boolean;
  slots: number;
}

export function planCommand(): Command {
  const command = new Command('plan')
    .description('Show where every byte would go, and what a budget is worth')
    .argument('<models...>', 'checkpoints, of which config.json suffices, GGUF files, packed models or names')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  sida plan models/switch-words --memory-budget 25%\n' +
        '  sida plan models/switch-words --routing predicted --routing-k 3 --json\n' +
        '  sida plan models/switch-words models/olmoe-mini --memory-budget 64MiB\n' +
        '  sida plan Qwen/Qwen3-30B-A3B --memory-budget 20GiB',
    )
    .action(async (models: string[], values: Record<string, unknown>) => {
      const sources = { flags: givenFlags(values), env: process.env };
      const fits = await withModelHeads(models, (dirs) =>
        dirs.length === 1 ? planOne(dirs[0]!, sources, values) : planSeveral(dirs, sources, values),
      );
      if (!fits) process.exitCode = EXIT.failure;
    });
  return addFlags(command, OPTIONS, { repeated: MODEL_OPTIONS });
}

type PlanOptions = Pick<ServeOptions, (typeof OPTIONS)[number]>;

function resolvePlanOptions(sources: Sources): PlanOptions {
  return resolveOptions(OPTIONS, sources);
}

/** Prints the plan of one model, and resolves with whether its budget suffices. */
async function planOne(dir: string, sources: Sources, values: Record<string, unknown>): Promise<boolean> {
  const options = resolvePlanOptions(sources);
  const planned = await planModel(resolve(dir), options);
  const budget = budgetOf(options.memoryBudget, planned);
  if (values.json === true) printJson(asJson(planned, options, budget));
  else printLines(...describeAll(planned, options, budget));
  return budget.fits;
}

/** Prints the plans of models that one server serves, and how they split a budget that they share. */
async function planSeveral(
  dirs: readonly string[],
  sources: Sources,
  values: Record<string, unknown>,
): Promise<boolean> {
  const { models, sharedBudget } = resolveModels(dirs, sources, false, resolvePlanOptions);
  const planned = await Promise.all(models.map(({ options }, i) => planModel(resolve(dirs[i]!), options)));
  const named = models.map(({ name }, i) => ({ name, plan: planned[i]!.plan }));
  const split = sharedBudget === undefined ? undefined : splitBudget(sharedBudget, named);
  const plans = models.map(({ name, options }, i) => {
    const memoryBudget = split === undefined ? options.memoryBudget : String(split[i]);
    return {
      name,
      options: { ...options, memoryBudget },
      planned: planned[i]!,
      budget: budgetOf(memoryBudget, planned[i]!),
    };
  });
  const bytes = plans.reduce((sum, { budget }) => sum + budget.bytes, 0);
  if (values.json === true) {
    const each = plans.map(({ name, planned, options, budget }) => ({
      name,
      ...asJson(planned, options, budget),
    }));
    printJson({ models: each, budget: { bytes: sharedBudget ?? bytes, shared: sharedBudget !== undefined } });
  } else {
    for (const { name, planned, options, budget } of plans) {
      printLines(name, '', ...describeAll(planned, options, budget), '');
    }
    printLines(...describeSplit(plans, sharedBudget));
  }
  return plans.every(({ budget }) => budget.fits);
}

function describeSplit(
  plans: readonly { name: string; planned: Planned; budget: Budget }[],
  sharedBudget: number | undefined,
): string[] {
  const rows = plans.map(({ name, planned: { plan }, budget }) => [
    name,
    formatBytes(plan.smallest),
    formatBytes(allExperts(plan)),
    formatBytes(budget.bytes),
    String(budget.bytes),
    `${budget.slots} of ${plan.experts}`,
  ]);
  const total = plans.reduce((sum, { budget }) => sum + budget.bytes, 0);
  const verdict =
    sharedBudget === undefined
      ? `The budgets are ${formatBytes(total)} together.`
      : `A budget of ${formatBytes(sharedBudget)} is split: the smallest for each model, and the rest in proportion to the bytes of its experts.`;
  return [
    ...tableLines('lrrrrr', [['', 'smallest', 'all experts', 'budget', 'bytes', 'slots'], ...rows]),
    '',
    verdict,
  ];
}

function budgetOf(memoryBudget: string, { plan }: Planned): Budget {
  const bytes = budgetBytes(memoryBudget, plan);
  return { bytes, fits: bytes >= plan.smallest, slots: slotsWithin(bytes, plan) };
}

function asJson(planned: Planned, { activations }: PlanOptions, budget: Budget) {
  return { ...planned, activations, choices: slotsOfChoices(planned, budget.bytes), budget };
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
    verdict(options.memoryBudget, budget, planned.plan),
  ];
}

/** The names of the MoE layers in a pack's manifest. */
const layersSchema = z.object({ experts: z.object({ layers: z.array(z.string()) }) });

async function planModel(dir: string, options: PlanOptions): Promise<Planned> {
  const limits = batchLimits(options);
  const wanted = weightChoices(options);
  const addon = loadAddon();
  if (isPack(dir)) {
    const formats = await preparedFormats(dir, wanted);
    const plan = addon.planMemory({ pack: dir }, limits);
    const { experts } = readJsonFile(dir, MANIFEST, layersSchema, { code: 'pack_invalid' })!;
    return { shape: null, fromConfig: false, plan, layers: experts.layers, formats, choices: [] };
  }
  const fromConfig = hasOnlyConfig(dir);
  const { lossless, shape, layers, planWith } = fromConfig
    ? openConfig(dir, limits)
    : openWeights(dir, limits);
  const formats = resolveFormats(wanted, lossless);
  const planOf = (experts: WeightFormat) => planWith({ experts, dense: formats.dense });
  const group = formats.experts.group ?? DEFAULT_GROUP;
  const packable: WeightFormat[] = EXPERT_DTYPES.filter((dtype) => !COPIED_DTYPES.includes(dtype)).map(
    (dtype) => (dtype === 'int4' ? { dtype, group } : { dtype }),
  );
  // A type that the checkpoint has and sida does not make comes first.
  if (!packable.some((format) => format.dtype === lossless.experts.dtype)) packable.unshift(lossless.experts);
  const choices = packable.map((experts) => ({ experts, plan: planOf(experts) }));
  return { shape, fromConfig, plan: planOf(formats.experts), layers, formats, choices };
}

interface Checkpoint {
  lossless: PackFormats;
  shape: ModelShape | null;
  layers: string[];
  planWith: (formats: PackFormats) => MemoryPlan;
}

function openWeights(dir: string, limits: BatchLimits): Checkpoint {
  const addon = loadAddon();
  const { lossless, shape } = addon.inspectCheckpoint(dir);
  const planWith = (formats: PackFormats) => addon.planMemory({ checkpoint: dir, ...formats }, limits);
  return { lossless, shape, layers: shape.moeLayers, planWith };
}

function openConfig(dir: string, limits: BatchLimits): Checkpoint {
  const lossless = configFormats(dir);
  const { layers } = loadAddon().describePack({ config: dir, ...lossless }).experts;
  return { lossless, shape: null, layers, planWith: (formats) => planOfConfig(dir, formats, limits) };
}

/** The number of expert slots within a budget of `bytes`. It is 0 below the smallest workable budget. */
export function slotsWithin(bytes: number, plan: MemoryPlan): number {
  if (bytes < plan.smallest) return 0;
  return Math.min(plan.experts, Math.floor((bytes - plan.fixed) / plan.slot));
}

function describeShape(shape: ModelShape): string {
  const { family, stacks, experts, topK, moeLayers, contextTokens } = shape;
  const layers = stacks.map(({ name, layers: count }) => `${count} ${name} layers`).join(' and ');
  const kind = isEncoderDecoder(shape) ? 'encoder-decoder' : 'decoder-only';
  const context = contextTokens === null ? '' : `, a context of ${contextTokens} tokens`;
  return `${family}, ${kind}: ${layers}, ${moeLayers.length} of them MoE with ${experts} experts, ${topK} for a token${context}`;
}

function describe({ plan, layers, formats }: Planned, { kv, activations }: PlanOptions): string[] {
  const row = (name: string, bytes: number, note = '') => [name, formatBytes(bytes), String(bytes), note];
  const perLayer = plan.experts / layers.length;
  const slotOf = new Set(plan.blockBytes).size > 1 ? 'the largest expert' : 'one expert';
  const tokenSlots = plan.tokenDemand / plan.slot;
  return tableLines('lrrl', [
    ['', 'size', 'bytes', ''],
    row('dense weights', plan.dense, formatName(formats.dense)),
    row('routers', plan.routers),
    row('KV cache', plan.kvCache, kv),
    row('workspace', plan.workspace, `activations ${activations}`),
    row('one slot', plan.slot, `${slotOf}, ${formatName(formats.experts)}`),
    ...layers.map((layer, i) =>
      row(`experts ${layer}`, perLayer * plan.blockBytes[i]!, `${perLayer} experts`),
    ),
    row("one token's demand", plan.tokenDemand, `${tokenSlots} slots for its experts`),
    row('recency floor', plan.recencyFloor, 'below it an LRU cache never hits for a lone generation'),
    row('smallest', plan.smallest, 'everything but the experts, and one slot'),
    row('resident', plan.resident, 'every expert in a slot'),
  ]);
}

/** Bytes of every expert. A GGUF file can have larger ones in some layers; a slot for each would be more bytes. */
function allExperts({ experts, blockBytes }: MemoryPlan): number {
  return blockBytes.reduce((sum, bytes) => sum + bytes * (experts / blockBytes.length), 0);
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

function verdict(written: string, { bytes, fits, slots }: Budget, plan: MemoryPlan): string {
  const size = written.endsWith('%') ? `${written}, ${formatBytes(bytes)}` : formatBytes(bytes);
  if (!fits) {
    return `A budget of ${size} is too small: ${plan.smallest} bytes (${formatBytes(plan.smallest)}) are needed.`;
  }
  return `A budget of ${size} has ${slots} ${slots === 1 ? 'slot' : 'slots'} for ${plan.experts} experts.`;
}
