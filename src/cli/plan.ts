/** `sida plan`: shows where every byte would go, without allocating anything. */

import { resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { isPack, MANIFEST } from '../checkpoint/manifest.js';
import { preparedFormats } from '../checkpoint/prepare-pack.js';
import {
  DEFAULT_GROUP,
  EXPERT_DTYPES,
  type FormatChoices,
  formatName,
  resolveFormat,
  sameFormat,
} from '../checkpoint/weight-format.js';
import { budgetBytes } from '../config/budget.js';
import { resolveOptions } from '../config/resolve.js';
import { WEIGHT_OPTIONS, weightChoices } from '../config/weight-options.js';
import { readJsonFile } from '../files/json-file.js';
import { isEncoderDecoder } from '../model/model-shape.js';
import { loadAddon } from '../native/addon.js';
import type {
  BatchLimits,
  KvType,
  MemoryPlan,
  ModelShape,
  PackFormats,
  WeightFormat,
} from '../native/addon-types.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
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
  /** Null for a pack, whose manifest names only its MoE layers. */
  shape: ModelShape | null;
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
    .argument('<dir>', 'Hugging Face checkpoint or packed model')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida plan models/switch-mini --memory-budget 25%\n  sida plan models/switch-mini --routing predicted --routing-k 3 --json',
    )
    .action(async (dir: string, values: Record<string, unknown>) => {
      const options = resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env });
      const limits: BatchLimits = {
        maxBatchTokens: options.maxBatchTokens,
        kvTokens: options.kvTokens,
        kv: options.kv,
        kvWindows: options.kvWindows,
        threads: options.threads,
        ...(options.routingK !== undefined && { maxRoutingK: options.routingK }),
        activations: options.activations,
        device: options.device,
        routers: options.routing === 'exact',
      };
      const planned = await planModel(resolve(dir), limits, weightChoices(options));
      const bytes = budgetBytes(options.memoryBudget, planned.plan);
      const slots = slotsWithin(bytes, planned.plan);
      const budget = { bytes, fits: bytes >= planned.plan.smallest, slots };
      if (values.json === true) printJson({ ...planned, choices: slotsOfChoices(planned, bytes), budget });
      else {
        printLines(
          ...(planned.shape === null ? [] : [describeShape(planned.shape), '']),
          ...describe(planned, options.kv),
          '',
          ...describeChoices(planned, bytes),
          verdict(options.memoryBudget, budget, planned.plan),
        );
      }
      if (!budget.fits) process.exitCode = EXIT.failure;
    });
  return addFlags(command, OPTIONS);
}

/** The names of the MoE layers in a pack's manifest. */
const layersSchema = z.object({ experts: z.object({ layers: z.array(z.string()) }) });

async function planModel(dir: string, limits: BatchLimits, wanted: FormatChoices): Promise<Planned> {
  const addon = loadAddon();
  if (isPack(dir)) {
    const formats = await preparedFormats(dir, wanted);
    const plan = addon.planMemory({ pack: dir }, limits);
    const { experts } = readJsonFile(dir, MANIFEST, layersSchema, { code: 'pack_invalid' })!;
    return { shape: null, plan, layers: experts.layers, formats, choices: [] };
  }
  const { lossless, shape } = addon.inspectCheckpoint(dir);
  const formats = {
    experts: resolveFormat(wanted.experts, lossless.experts),
    dense: resolveFormat(wanted.dense, lossless.dense),
  };
  const planOf = (experts: WeightFormat) =>
    addon.planMemory({ checkpoint: dir, experts, dense: formats.dense }, limits);
  const group = formats.experts.group ?? DEFAULT_GROUP;
  const choices = EXPERT_DTYPES.map((dtype) => {
    const experts = dtype === 'int4' ? { dtype, group } : { dtype };
    return { experts, plan: planOf(experts) };
  });
  return { shape, plan: planOf(formats.experts), layers: shape.moeLayers, formats, choices };
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

function describe({ plan, layers, formats }: Planned, kv: KvType): string[] {
  const row = (name: string, bytes: number, note = '') => [name, formatBytes(bytes), String(bytes), note];
  const perLayer = plan.experts / layers.length;
  const tokenSlots = plan.tokenDemand / plan.slot;
  return tableLines('lrrl', [
    ['', 'size', 'bytes', ''],
    row('dense weights', plan.dense, formatName(formats.dense)),
    row('routers', plan.routers),
    row('KV cache', plan.kvCache, kv),
    row('workspace', plan.workspace),
    row('one slot', plan.slot, `one expert, ${formatName(formats.experts)}`),
    ...layers.map((layer) => row(`experts ${layer}`, perLayer * plan.slot, `${perLayer} experts`)),
    row("one token's demand", plan.tokenDemand, `${tokenSlots} slots for its experts`),
    row('recency floor', plan.recencyFloor, 'below it an LRU cache never hits for a lone generation'),
    row('smallest', plan.smallest, 'everything but the experts, and one slot'),
    row('resident', plan.resident, 'every expert in a slot'),
  ]);
}

function slotsOfChoices({ choices }: Planned, bytes: number): (Choice & { slots: number })[] {
  return choices.map((choice) => ({ ...choice, slots: slotsWithin(bytes, choice.plan) }));
}

function describeChoices(planned: Planned, bytes: number): string[] {
  if (planned.choices.length === 0) return [];
  const rows = slotsOfChoices(planned, bytes).map(({ experts, plan, slots }) => [
    `--experts ${experts.dtype}${experts.group === undefined ? '' : ` --group ${experts.group}`}`,
    formatBytes(plan.slot),
    formatBytes(plan.expertBytes),
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
