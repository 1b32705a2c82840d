/** Recorded routing of either kind: a directory of `sida trace`, or a CSV file. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import { RECORDS, readMeta, readTrace, shapeOf } from '../trace/trace-file.js';
import type { TraceSide } from '../trace/trace-record.js';
import { readCsvTrace } from './csv-trace.js';
import type { RecordedBatch, RecordedPass, RoutingTrace, TraceReading } from './routing-trace.js';

export async function openTrace(path: string, reading: TraceReading): Promise<RoutingTrace> {
  const isDirectory = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isDirectory ? readSidaTrace(path, reading) : readCsvTrace(path, reading);
}

/**
 * A record is a batch: its text in one pass, then each token of the continuation in one. An expert is needed by the
 * tokens whose first choice it is, over capacity or not.
 */
async function readSidaTrace(
  directory: string,
  { expertBytes, onBytes }: TraceReading,
): Promise<RoutingTrace> {
  const meta = await readMeta(directory);
  if (!meta.complete) {
    const message = `${directory} is incomplete; start its \`sida trace\` again to finish it`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  if (expertBytes === undefined) {
    const message = `${directory} does not tell the bytes of an expert: give --expert-bytes, the slot of \`sida plan\``;
    throw new SidaError({ code: 'invalid_request', message });
  }
  const { size } = await stat(join(directory, RECORDS));
  const { encoderLayers, decoderLayers, top } = shapeOf(meta);
  const passOf = (phase: RecordedPass['phase'], side: TraceSide, from: number, to: number): RecordedPass => {
    const layers = phase === 'prefill' ? encoderLayers : decoderLayers;
    const first = phase === 'prefill' ? 0 : encoderLayers;
    const turns = Array.from({ length: layers }, (_, layer) => {
      const times = new Map<number, number>();
      for (let t = from; t < to; t++) {
        const entry = (layer * side.tokens.length + t) * top;
        const id = (first + layer) * meta.experts + side.experts[entry]!;
        times.set(id, (times.get(id) ?? 0) + 1);
      }
      return [...times].sort(([a], [b]) => a - b);
    });
    return {
      phase,
      tokens: to - from,
      visits: turns.map((turn) => turn.map(([id]) => id)),
      choices: turns.map((turn) => turn.map(([, times]) => times)),
    };
  };
  const batches: RecordedBatch[] = [];
  for await (const { encoder, decoder, end } of readTrace(directory)) {
    const passes = [
      passOf('prefill', encoder, 0, encoder.tokens.length),
      ...Array.from(decoder.tokens, (_, t) => passOf('decode', decoder, t, t + 1)),
    ];
    batches.push({ passes: passes.filter(({ tokens, visits }) => tokens > 0 && visits.length > 0) });
    onBytes?.(end, size);
  }
  return {
    name: directory,
    model: meta.model.name,
    layers: meta.layers,
    experts: meta.experts,
    expertBytes: meta.layers.map(() => expertBytes),
    batches,
  };
}
