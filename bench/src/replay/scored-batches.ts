/** The batches of a trace of texts and labels, as scoring runs them: a pass of the text, and one of all its labels. */
import type { RecordedBatch, RecordedPass } from './routing-trace.js';

/** Each text has as many records as its labels feed token lists to the decoder. `texts` divides their number. */
export function scoredBatches(records: readonly RecordedBatch[], texts: number): RecordedBatch[] {
  const each = records.length / texts;
  return Array.from({ length: texts }, (_, text) => {
    const own = records.slice(text * each, (text + 1) * each);
    return { passes: [own[0]!.passes[0]!, joined(own.flatMap(({ passes }) => passes.slice(1)))] };
  });
}

/** One pass that needs what all of these need. */
function joined(passes: readonly RecordedPass[]): RecordedPass {
  const turns = passes[0]!.visits.map((_, turn) => {
    const times = new Map<number, number>();
    for (const { visits, choices } of passes) {
      for (const [i, id] of visits[turn]!.entries()) times.set(id, (times.get(id) ?? 0) + choices[turn]![i]!);
    }
    return [...times].sort(([a], [b]) => a - b);
  });
  return {
    phase: passes[0]!.phase,
    tokens: passes.reduce((sum, { tokens }) => sum + tokens, 0),
    visits: turns.map((turn) => turn.map(([id]) => id)),
    choices: turns.map((turn) => turn.map(([, times]) => times)),
  };
}
