/** Answers control requests to the open engine between two steps. */
import { clockMs } from '../clock.js';
import { type BudgetShare, budgetBytes, checkBudget, checkShared } from '../config/budget.js';
import { type Engine, RESIDENCY_STATES, RESIDENT } from '../native/addon-types.js';
import { expertsOf } from '../native/model-shape.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import type {
  CachedPages,
  ControlReply,
  ExpertState,
  MemorySplit,
  ModelRequest,
} from '../protocol/engine-messages.js';
import { RECURRENT } from '../scheduler/page-need.js';

interface ControlledThread {
  engine: Engine;
  cached: CachedPages;
  routeAhead: number;
  builderStats: BuilderStats;
}

export function answerControl(
  request: ModelRequest,
  { engine, cached, routeAhead, builderStats }: ControlledThread,
): ControlReply {
  switch (request.kind) {
    case 'usage':
      return { kind: 'usage', usage: engine.usage(), split: memorySplit(engine, cached) };
    case 'experts':
      return { kind: 'experts', layers: expertLayers(engine) };
    case 'predictor': {
      if (request.set !== undefined) {
        const { enabled, seconds = Number.POSITIVE_INFINITY } = request.set;
        builderStats.offUntilMs = enabled ? 0 : clockMs() + 1000 * seconds;
      }
      const enabled = clockMs() >= builderStats.offUntilMs;
      return { kind: 'predictor', enabled, needed: engine.usage().slots < engine.plan.experts, routeAhead };
    }
    case 'set-budget':
      changeBudget(request.device, request.shared, engine);
      return { kind: 'set-budget', usage: engine.usage(), split: memorySplit(engine, cached) };
  }
}

/** Throws budget_too_small, without a change, where the budget is below the smallest or above what others leave. */
function changeBudget(device: string, shared: BudgetShare | undefined, engine: Engine): void {
  const bytes = checkBudget(budgetBytes(device, engine.plan), engine.plan);
  if (shared !== undefined) checkShared(bytes, shared);
  engine.setBudget(bytes);
}

function expertLayers(engine: Engine): { layer: string; experts: ExpertState[] }[] {
  const { shape } = engine;
  const { state, pinned, uses } = engine.residency();
  return shape.moeLayers.map((layer, l) => ({
    layer,
    experts: Array.from({ length: expertsOf(shape, l) }, (_, index) => {
      const id = shape.firstExperts[l]! + index;
      return { index, state: RESIDENCY_STATES[state[id]!]!, pinned: pinned[id] !== 0, uses: uses[id]! };
    }),
  }));
}

/** How KV pages and experts share the device. */
export function memorySplit(engine: Engine, { pages: cachedPages, states }: CachedPages): MemorySplit {
  const { shape, plan } = engine;
  const { kvPages, kvPagesFree, kvPageBytes, kvWindows, slots } = engine.usage();
  const groups = [{ pages: kvPages, pagesFree: kvPagesFree, pageBytes: kvPageBytes }, ...kvWindows];
  const bytes = (pages: (group: (typeof groups)[number]) => number) =>
    groups.reduce((sum, group) => sum + pages(group) * group.pageBytes, 0);
  const free = bytes(({ pagesFree }) => pagesFree);
  const stateBytes = kvWindows.find(({ window }) => window === RECURRENT)?.pageBytes ?? 0;
  const cached = cachedPages * kvPageBytes + states * stateBytes;
  // A slot takes whole pages of the device, and so does the expert in it.
  const pages = plan.slot / plan.block;
  let resident = 0;
  const { state } = engine.residency();
  plan.blockBytes.forEach((blockBytes, layer) => {
    const own = state.subarray(shape.firstExperts[layer], shape.firstExperts[layer + 1]);
    for (const each of own) if (each === RESIDENT) resident += blockBytes * pages;
  });
  return {
    driver: plan.driver,
    dense: plan.dense + plan.routers,
    workspace: plan.workspace,
    kv: { used: bytes(({ pages }) => pages) - free - cached, cached, free },
    experts: { slots: slots * plan.slot, resident, all: plan.expertBytes, token: plan.tokenDemand },
  };
}
