/** Recorded routing of either kind: a directory of `sida trace`, or a CSV file. */
import { statSync } from 'node:fs';
import { SidaError } from '../../../dist/errors.js';
import { readMeta, readTrace, shapeOf } from '../../../dist/trace/trace-file.js';
import type { StackRecord } from '../../../dist/trace/trace-record.js';
import { readCsvTrace } from './csv-trace.js';
import { type RecordedBatch, type RecordedPass, type RoutingTrace, turnOf } from './routing-trace.js';

/** `expertBytes`: where the trace does not say; a directory never does. */
export async function openTrace(path: string, expertBytes?: number): Promise<RoutingTrace> {
  return statSync(path).isDirectory() ? readSidaTrace(path, expertBytes ?? 1) : readCsvTrace(path, expertBytes);
}

/**
 * A record is a batch: its text in one pass, then each token of the continuation in one. An expert is needed by the
 * tokens that it was chosen for, over capacity or not.
 */
async function readSidaTrace(directory: string, expertBytes: number): Promise<RoutingTrace> {
  const meta = await readMeta(directory);
  if (!meta.complete) {
    const message = `${directory} is incomplete; start its \`sida trace\` again to finish it`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  if (meta.layerExperts !== undefined) {
    const message = `${directory} is of a model whose layers differ in their numbers of experts; replays need equal ones`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  const { stacks, top } = shapeOf(meta);
  const passOf = (stack: number, routed: StackRecord, from: number, to: number): RecordedPass => {
    const first = stacks.slice(0, stack).reduce((sum, { layers }) => sum + layers, 0);
    const turns = Array.from({ length: stacks[stack]!.layers }, (_, layer) => {
      const times = new Map<number, number>();
      for (let t = from; t < to; t++) {
        const entry = (layer * routed.tokens.length + t) * top;
        for (const expert of routed.experts.subarray(entry, entry + meta.topK)) {
          const id = (first + layer) * meta.experts + expert;
          times.set(id, (times.get(id) ?? 0) + 1);
        }
      }
      return turnOf(times);
    });
    return {
      phase: from === 0 && stack === 0 ? 'prefill' : 'decode',
      tokens: to - from,
      visits: turns.map(({ ids }) => ids),
      choices: turns.map(({ choices }) => choices),
    };
  };
  const batches: RecordedBatch[] = [];
  const last = stacks.length - 1;
  for await (const { input, stacks: recorded } of readTrace(directory)) {
    const generated = last === 0 ? input : 0;
    const passes = [
      passOf(0, recorded[0]!, 0, input),
      ...Array.from({ length: recorded[last]!.tokens.length - generated }, (_, t) =>
        passOf(last, recorded[last]!, generated + t, generated + t + 1),
      ),
    ];
    batches.push({ passes: passes.filter(({ tokens, visits }) => tokens > 0 && visits.length > 0) });
  }
  return {
    model: meta.model.name,
    layers: meta.layers,
    experts: meta.experts,
    expertBytes: meta.layers.map(() => expertBytes),
    batches,
  };
}
