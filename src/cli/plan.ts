/** `sida plan`: where every byte would go, before anything is allocated. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { isPack, MANIFEST, readManifest } from '../checkpoint/manifest.js';
import { formatBytes } from '../config/bytes.js';
import { resolveOptions } from '../config/resolve.js';
import { budgetBytes } from '../engine/budget.js';
import { loadAddon } from '../native/addon.js';
import type { BatchLimits, ExpertDtype, MemoryPlan, PackLayout } from '../native/addon-types.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { formatTable } from './table.js';

const OPTIONS = ['memoryBudget', 'experts', 'maxBatchTokens', 'kvTokens', 'threads'] as const;

type Dtype = 'auto' | ExpertDtype;

interface Planned {
  plan: MemoryPlan;
  layers: string[];
  expertDtype: ExpertDtype;
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
    .addOption(
      new Option('--dense <type>', 'element type of the weights that are no experts')
        .choices(['auto', 'f32', 'bf16'])
        .default('auto'),
    )
    .addOption(
      new Option('--routing <mode>', "predicted: tables route, and the model's routers stay off the device")
        .choices(['exact', 'predicted'])
        .default('exact'),
    )
    .addOption(
      new Option('--routing-k <n>', 'most experts that a table may route a token to; more need workspace')
        .argParser(routingK)
        .default(1),
    )
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
        threads: options.threads,
        maxRoutingK: values.routingK as number,
        routers: values.routing === 'exact',
      };
      const planned = await planModel(resolve(dir), limits, options.experts, values.dense as Dtype);
      const bytes = budgetBytes(options.memoryBudget, planned.plan);
      const slots = slotsWithin(bytes, planned.plan);
      const budget = { bytes, fits: bytes >= planned.plan.smallest, slots };
      process.stdout.write(
        values.json === true
          ? `${JSON.stringify({ ...planned, budget }, null, 2)}\n`
          : `${describe(planned)}\n\n${verdict(options.memoryBudget, budget, planned.plan)}\n`,
      );
      if (!budget.fits) process.exitCode = EXIT.failure;
    });
  return addFlags(command, OPTIONS);
}

async function planModel(dir: string, limits: BatchLimits, experts: Dtype, dense: Dtype): Promise<Planned> {
  const addon = loadAddon();
  if (isPack(dir)) {
    await readManifest(dir);
    const layout = JSON.parse(await readFile(join(dir, MANIFEST), 'utf8')) as PackLayout;
    return {
      plan: addon.planMemory({ pack: dir }, limits),
      layers: layout.experts.layers,
      expertDtype: layout.experts.dtype,
    };
  }
  const info = addon.inspectCheckpoint(dir);
  const expertDtype = experts === 'auto' ? info.lossless.experts : experts;
  const denseDtype = dense === 'auto' ? info.lossless.dense : dense;
  return {
    plan: addon.planMemory({ checkpoint: dir, experts: expertDtype, dense: denseDtype }, limits),
    layers: info.shape.moeLayers,
    expertDtype,
  };
}

function routingK(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= 64) return value;
  throw new InvalidArgumentError('Expected a whole number from 1 to 64.');
}

/** Slots for experts that a budget leaves; 0 when it is below the smallest workable one. */
export function slotsWithin(bytes: number, plan: MemoryPlan): number {
  if (bytes < plan.smallest) return 0;
  return Math.min(plan.experts, Math.floor((bytes - plan.fixed) / plan.slot));
}

function describe({ plan, layers, expertDtype }: Planned): string {
  const row = (name: string, bytes: number, note = '') => [name, formatBytes(bytes), String(bytes), note];
  const perLayer = plan.experts / layers.length;
  return formatTable('lrrl', [
    ['', 'size', 'bytes', ''],
    row('dense weights', plan.dense),
    row('routers', plan.routers),
    row('KV cache', plan.kvCache),
    row('workspace', plan.workspace),
    row('one slot', plan.slot, `one expert, ${expertDtype}`),
    ...layers.map((layer) => row(`experts ${layer}`, perLayer * plan.slot, `${perLayer} experts`)),
    row('smallest', plan.smallest, 'everything but the experts, and one slot'),
    row('resident', plan.resident, 'every expert in a slot'),
  ]);
}

function verdict(written: string, { bytes, fits, slots }: Budget, plan: MemoryPlan): string {
  const size = written.endsWith('%') ? `${written}, ${formatBytes(bytes)}` : formatBytes(bytes);
  if (!fits) {
    return `A budget of ${size} is too small: ${plan.smallest} bytes (${formatBytes(plan.smallest)}) are needed.`;
  }
  return `A budget of ${size} has ${slots} ${slots === 1 ? 'slot' : 'slots'} for ${plan.experts} experts.`;
}
