/** What `sida doctor MODEL` says: whether the model fits this machine, whether it is fast, and what to change. */
import { resolve } from 'node:path';
import { formatFlags, formatName, isQuantized } from '../checkpoint/weight-format.js';
import { withoutMargin } from '../config/budget.js';
import { resolveOptions, type Sources, writtenFor } from '../config/resolve.js';
import { SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import { formatBytes, formatLeast } from '../text/bytes.js';
import { describeShape, PLAN_OPTIONS, type Planned, planModel, slotsWithin } from './plan.js';

/** A check never throws: it reports its failure as its result. */
export interface Check {
  name: string;
  /** `–`: not used here. */
  result: 'ok' | 'warn' | 'fail' | '–';
  found: string;
  /** What the user should do. Absent when nothing needs to be done. */
  hint?: string;
}

/** Loading for a token takes longer: the disk then decides the speed. */
const SLOW_LOADING_MS = 100;

/** `diskRate`: bytes per second from where packs lie; undefined where it is not known. */
export async function checkModel(model: string, sources: Sources, diskRate?: number): Promise<Check[]> {
  const options = resolveOptions(PLAN_OPTIONS, sources);
  let planned: Planned;
  try {
    planned = await planModel(resolve(model), options);
  } catch (error) {
    return [{ name: 'model', result: 'fail', found: SidaError.from(error).message }];
  }
  const { plan, shape, formats } = planned;
  const written = writtenFor('memoryBudget', sources)?.value;
  const room = withoutMargin(planned.sizes.freeBytes);
  const bytes = written === undefined ? Math.min(plan.resident, room) : planned.sizes.budgetBytes;
  const found = `${shape === null ? 'packed' : describeShape(shape)}; experts in ${formatName(formats.experts)}`;
  return [
    { name: 'model', result: 'ok', found },
    checkFit(planned, { bytes, room, written }),
    ...(bytes < plan.smallest
      ? []
      : [checkSpeed(plan, { bytes, room }, diskRate), ...checkActivations(planned)]),
  ];
}

interface Budget {
  bytes: number;
  room: number;
  /** As the user wrote it. */
  written: string | undefined;
}

function checkFit(planned: Planned, { bytes, room, written }: Budget): Check {
  const name = 'fits';
  const { plan } = planned;
  const free = `the ${formatBytes(room)} that are free less a margin`;
  const hint = smallerTypes(planned, room);
  if (bytes < plan.smallest) {
    const found = `a budget of ${formatBytes(bytes)} is too small, the smallest that works is ${formatLeast(plan.smallest)}`;
    const more = `Lower --max-batch-tokens and --kv-tokens${hint === undefined ? '' : `, or: ${hint}`}`;
    return {
      name,
      result: 'fail',
      found,
      hint: plan.smallest <= room ? serveWith(plan, room) : more,
    };
  }
  if (bytes > room) {
    const found = `the budget of ${formatBytes(bytes)} is more than ${free}`;
    return { name, result: 'warn', found, hint: serveWith(plan, room) };
  }
  if (bytes >= plan.resident) {
    return { name, result: 'ok', found: `every expert, in ${formatBytes(plan.resident)} of ${free}` };
  }
  const found = `${slotsWithin(bytes, plan)} of ${plan.experts} experts at a time, in ${formatBytes(bytes)} of ${free}`;
  const better = written !== undefined && room > bytes ? serveWith(plan, room) : hint;
  return { name, result: 'ok', found, ...(better !== undefined && { hint: better }) };
}

function serveWith({ resident }: MemoryPlan, room: number): string {
  const size = resident <= room ? formatLeast(resident) : formatBytes(room);
  return `Serve it with --memory-budget ${size.replace(' ', '')}`;
}

/** The most exact type with which every expert would fit. */
function smallerTypes({ choices, plan }: Planned, room: number): string | undefined {
  const fitting = choices.filter(
    (choice) => choice.plan.resident < plan.resident && choice.plan.resident <= room,
  );
  const best = fitting.toSorted((a, b) => b.plan.resident - a.plan.resident)[0];
  if (best === undefined) return undefined;
  return `With --experts ${formatFlags(best.experts)}, less exact, every expert fits in ${formatLeast(best.plan.resident)}`;
}

function checkSpeed(
  plan: MemoryPlan,
  { bytes, room }: Pick<Budget, 'bytes' | 'room'>,
  diskRate: number | undefined,
): Check {
  const name = 'speed';
  const slots = slotsWithin(bytes, plan);
  const demand = formatBytes(plan.tokenDemand);
  if (slots >= plan.experts) {
    return { name, result: 'ok', found: `a token needs ${demand} of experts, which stay in memory` };
  }
  const loaded = plan.tokenDemand * (1 - slots / plan.experts);
  const about = `a token needs ${demand} of experts and loads about ${formatBytes(loaded)} of them`;
  if (diskRate === undefined) return { name, result: 'warn', found: about, hint: 'Mend the disk above' };
  const ms = (1000 * loaded) / diskRate;
  const found = `${about}: ${ms.toFixed(ms < 10 ? 1 : 0)} ms at ${(diskRate / 1e6).toFixed(0)} MB/s, where routing is even`;
  if (ms <= SLOW_LOADING_MS) return { name, result: 'ok', found };
  const larger = bytes < room ? 'A larger --memory-budget' : 'A smaller --context';
  const hint = `${larger}, smaller --experts or a --pack-dir on a faster disk makes it faster`;
  return { name, result: 'warn', found, hint };
}

function checkActivations({ formats, sizes }: Planned): Check[] {
  if (sizes.activations !== 'f32' || !isQuantized(formats.experts)) return [];
  const found = 'f32, more exact than the quantized weights need';
  return [{ name: 'activations', result: 'ok', found, hint: '--activations int8 is faster' }];
}
