/**
 * What the time of passes goes into, in the parts of SiDA-MoE's figure 3 (MLSys 2024): selecting experts, invoking
 * them, communication, and the rest of the model.
 */
import type { TraceEvent, TraceFile } from '../../../dist/profile/chrome-trace.js';

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
/** Plans for a whole pass and waits for tables lie between passes. */
const SELECTION = new Set(['router', 'plan']);
const TABLE_WAIT = 'table wait';
const PARTS: Record<string, 'invocation' | 'communication'> = {
  expert: 'invocation',
  dispatch: 'invocation',
  stall: 'communication',
};

/** `--profile` writes the trace. */
export function passParts({ traceEvents }: Pick<TraceFile, 'traceEvents'>): PassParts {
  const thread = traceEvents.find(({ ph, name, args }) => ph === 'M' && name === 'thread_name' && args?.name === THREAD); // biome-ignore format: one line
  const own = traceEvents.filter(({ ph, tid }) => ph === 'X' && tid === thread?.tid);
  const parts: PassParts = { selection: 0, invocation: 0, communication: 0, rest: 0 };
  for (const { event, selfMs, inPass } of withSelfTimes(own)) {
    const selects = SELECTION.has(event.cat!) || event.name === TABLE_WAIT;
    if (selects) parts.selection += selfMs;
    else if (inPass) parts[PARTS[event.cat!] ?? 'rest'] += selfMs;
  }
  return parts;
}

interface OwnTime {
  event: TraceEvent;
  /** Time without nested events. */
  selfMs: number;
  inPass: boolean;
}

/** Of one thread, whose events nest. */
function withSelfTimes(events: readonly TraceEvent[]): OwnTime[] {
  const open: OwnTime[] = [];
  return events
    .toSorted((a, b) => a.ts! - b.ts! || b.dur! - a.dur!)
    .map((event) => {
      while (open.length > 0 && endOf(open.at(-1)!.event) <= event.ts!) open.pop();
      const parent = open.at(-1);
      const ms = event.dur! / 1000;
      if (parent !== undefined) parent.selfMs -= ms;
      const own = { event, selfMs: ms, inPass: event.cat === 'pass' || parent?.inPass === true };
      open.push(own);
      return own;
    });
}

function endOf({ ts, dur }: TraceEvent): number {
  return ts! + dur!;
}
