import { TraceWriter } from '../../../../src/trace/trace-file.js';
import type { TraceRecord } from '../../../../src/trace/trace-record.js';
import { tracedModel } from '../../../support/traced-model.js';

export const META = {
  format: 'sida-trace',
  version: 1,
  model: tracedModel('m'),
  layers: ['encoder.1', 'encoder.3', 'decoder.1'],
  experts: 8,
  top: 3,
  data: 'd.jsonl',
  template: '{text}',
  maxNewTokens: 2,
} as const;

/** Routing whose values distinguish line, layer, token and rank. */
export function recordOf(line: number, n: number, m: number, top: number = META.top): TraceRecord {
  const side = (tokens: number, layers: number) => ({
    tokens: Int32Array.from({ length: tokens }, (_, t) => line * 10 + t),
    experts: Uint16Array.from({ length: layers * tokens * top }, (_, i) => {
      const [layer, t, rank] = [Math.floor(i / (tokens * top)), Math.floor(i / top) % tokens, i % top];
      return (line + layer + t + rank) % 8;
    }),
    logits: Float32Array.from(
      { length: layers * tokens * top },
      (_, i) => line + Math.floor(i / top) - (i % top) / 8,
    ),
  });
  return { line, input: n, stacks: [side(n, 2), side(m, 1)] };
}

export async function writeTrace(
  directory: string,
  records: TraceRecord[],
  meta: Partial<Parameters<typeof TraceWriter.open>[1]> = {},
  complete = true,
): Promise<void> {
  const writer = await TraceWriter.open(directory, { ...META, layers: [...META.layers], ...meta });
  await writer.append(records);
  if (complete) await writer.finish();
  await writer.close();
}
