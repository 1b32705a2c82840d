/** Answers control requests to the open engine between two steps. */
import { budgetBytes } from '../config/budget.js';
import { type Engine, RESIDENCY_STATES } from '../native/addon-types.js';
import type { ControlReply, ExpertState, ModelRequest } from '../protocol/engine-messages.js';

export function answerControl(request: ModelRequest, engine: Engine): ControlReply {
  switch (request.kind) {
    case 'usage':
      return { kind: 'usage', usage: engine.usage() };
    case 'experts':
      return { kind: 'experts', layers: expertLayers(engine) };
    case 'set-budget':
      engine.setBudget(budgetBytes(request.device, engine.plan));
      return { kind: 'set-budget', usage: engine.usage() };
  }
}

function expertLayers(engine: Engine): { layer: string; experts: ExpertState[] }[] {
  const { moeLayers, experts } = engine.shape;
  const { state, pinned, uses } = engine.residency();
  return moeLayers.map((layer, l) => ({
    layer,
    experts: Array.from({ length: experts }, (_, index) => {
      const id = l * experts + index;
      return { index, state: RESIDENCY_STATES[state[id]!]!, pinned: pinned[id] !== 0, uses: uses[id]! };
    }),
  }));
}
