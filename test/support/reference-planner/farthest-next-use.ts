import type { EvictionPolicy } from './policy.js';

/** Added to the share of turns that need an expert, so that its next use is finite: one turn in 50. */
const SELDOM = 0.02;
/** Rounding of a sum of turns must not count as one turn more. */
const ROUNDING = 1e-6;

/**
 * Evicts the expert whose next use is farthest: Belady's rule over the known tables. Beyond them, the next use is
 * estimated from when the expert's layer will run again, and from the share of its turns that needed the expert, where
 * recent turns weigh more. Layers run in turn, so of experts that are needed as often, those of layers that have just
 * run go first: the least recently used ones would be needed soonest.
 */
export const farthestNextUse: EvictionPolicy = {
  usesForecast: true,
  newestFirst: false,
  rank: ({ turns, lastTurn, useRate, useRateNeeded, useRateUnneeded, visits }, known, into) => {
    const { before, after, unneeded } = into;
    // Shares at first. The running pass counts as it is forecast. Later passes do not: replays then moved more bytes.
    before.set(useRate);
    for (const { firstId, experts, ids, chances } of known.own) {
      for (let id = firstId; id < firstId + experts; id++) before[id] = useRateUnneeded[id]!;
      for (let entry = 0; entry < ids.length; entry++) {
        const id = ids[entry]!;
        before[id]! += chances[entry]! * (useRateNeeded[id]! - useRateUnneeded[id]!);
      }
    }
    let turn = layerTurns(turns[0]!, lastTurn[0]!, visits, known.count);
    for (let id = 0; id < turns.length; id++) {
      // The experts of a layer have the same turns, and lie one behind the other.
      if (turns[id] !== turn.turns || lastTurn[id] !== turn.last)
        turn = layerTurns(turns[id]!, lastTurn[id]!, visits, known.count);
      const { cycle, next, afterPass } = turn;
      before[id] = next + moreTurns(cycle, before[id]!);
      after[id] = afterPass + moreTurns(cycle, useRateNeeded[id]!);
      unneeded[id] = afterPass + moreTurns(cycle, useRateUnneeded[id]!);
    }
  },
};

interface LayerTurns {
  turns: number;
  last: number;
  /** Visits from one turn of the layer to the next, on average. */
  cycle: number;
  /** The turn after what tables tell of, in visits from now. */
  next: number;
  /** The same after the running pass. */
  afterPass: number;
}

function layerTurns(turns: number, last: number, visits: number, known: number): LayerTurns {
  const cycle = turns === 0 ? visits + 1 : visits / turns;
  const now = visits + 1 - last;
  const nextTurn = (from: number) => Math.max(1, Math.ceil((from + now) / cycle - ROUNDING)) * cycle - now;
  const afterPass = nextTurn(Math.max(known, nextTurn(0) + 1));
  return { turns, last, cycle, next: nextTurn(known), afterPass };
}

/** Visits until a turn that needs the expert, behind the next turn. */
function moreTurns(cycle: number, share: number): number {
  return cycle * ((1 + SELDOM) / (share + SELDOM) - 1);
}
