import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { TraceWriter } from '../../../dist/trace/trace-file.js';
import { openTrace } from '../../src/replay/open-trace.js';

const root = mkdtempSync(join(tmpdir(), 'sida-open-'));
afterAll(() => rmSync(root, { recursive: true }));

/** Two encoder layers and a decoder layer of 8 experts, the best two of each token kept. */
async function written(name: string, finish: boolean): Promise<string> {
  const directory = join(root, name);
  const writer = await TraceWriter.open(directory, {
    format: 'sida-trace',
    version: 1,
    model: { name: 'small', weights: 'f', tokenizer: 'f', experts: 'bf16', dense: 'bf16' },
    layers: ['encoder.1', 'encoder.3', 'decoder.1'],
    experts: 8,
    top: 2,
    data: 'd.jsonl',
    template: '{text}',
    maxNewTokens: 2,
  });
  const side = (tokens: number, experts: number[]) => ({
    tokens: new Int32Array(tokens),
    experts: Uint16Array.from(experts),
    logits: new Float32Array(experts.length),
  });
  await writer.append([
    {
      line: 0,
      input: 3,
      stacks: [side(3, [5, 0, 1, 0, 5, 0, /* next layer */ 2, 0, 2, 0, 7, 0]), side(2, [4, 0, 6, 0])],
    },
  ]);
  if (finish) await writer.finish();
  await writer.close();
  return directory;
}

describe('a trace of `sida trace`', () => {
  it('is a batch a record: its text in one pass, then a pass a token', async () => {
    const trace = await openTrace(await written('whole', true), { expertBytes: 64 });
    expect(trace).toMatchObject({
      model: 'small',
      layers: ['encoder.1', 'encoder.3', 'decoder.1'],
      experts: 8,
      expertBytes: [64, 64, 64],
      batches: [
        {
          passes: [
            {
              phase: 'prefill',
              tokens: 3,
              visits: [
                [1, 5],
                [8 + 2, 8 + 7],
              ],
              choices: [
                [1, 2],
                [2, 1],
              ],
            },
            { phase: 'decode', tokens: 1, visits: [[16 + 4]], choices: [[1]] },
            { phase: 'decode', tokens: 1, visits: [[16 + 6]], choices: [[1]] },
          ],
        },
      ],
    });
  });

  it('is refused unfinished, or without the bytes of an expert', async () => {
    await expect(openTrace(await written('torn', false), { expertBytes: 64 })).rejects.toThrow(
      'is incomplete',
    );
    await expect(openTrace(join(root, 'whole'), {})).rejects.toThrow('give --expert-bytes');
  });
});
