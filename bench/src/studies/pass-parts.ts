/**
 * What the time of passes goes into, in the parts of SiDA-MoE's figure 3 (MLSys 2024): selecting experts, invoking
 * them, communication, and the rest of the model.
 */
import type { ProfileSummary } from '../../../dist/profile/summary.js';

/** Milliseconds. Together they are the time of the passes and of what the inference thread selects between them. */
export interface PassParts {
  /** Routers, plans that are made from hash tables, and waiting for a table. */
  selection: number;
  /** Sorting tokens to their experts, the experts' computing, and adding up what they give. */
  invocation: number;
  /** Waiting for experts that are being loaded. Loads behind computing cost no time of their own. */
  communication: number;
  /** Attention, dense layers, and all else. */
  rest: number;
}

export const PART_NAMES = ['selection', 'invocation', 'communication', 'rest'] as const;

const THREAD = 'inference';
const SELECTION = new Set(['router', 'plan']);
const INVOCATION = new Set(['expert', 'dispatch']);
const TABLE_WAIT = 'table wait';

export function passParts({ passes, ops }: Pick<ProfileSummary, 'passes' | 'ops'>): PassParts {
  const own = ops.filter(({ thread }) => thread === THREAD);
  const sum = (list: typeof own, of: (op: (typeof own)[number]) => number) =>
    list.reduce((total, op) => total + of(op), 0);
  const inPasses = ({ shareOfPasses }: (typeof own)[number]) => (shareOfPasses ?? 0) * passes.ms;
  const selecting = own.filter(({ name, category }) => SELECTION.has(category) || name === TABLE_WAIT);
  const invoking = own.filter(({ category }) => INVOCATION.has(category));
  const stalls = own.filter(({ category }) => category === 'stall');
  // Plans for a whole pass and waits for tables lie between passes.
  const selection = sum(selecting, ({ selfMs }) => selfMs);
  const [invocation, communication] = [sum(invoking, inPasses), sum(stalls, inPasses)];
  const rest = passes.ms - sum(selecting, inPasses) - invocation - communication;
  return { selection, invocation, communication, rest };
}
