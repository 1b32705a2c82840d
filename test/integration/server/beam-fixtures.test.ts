// The beam answers that come with the fixtures, over HTTP: four beams by transformers for every case, at three budgets.
// beams.test.ts compares the beams of switch-tiny.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { findFixture, oracleFixture } from '../../support/oracle-fixture.js';
import { ServerProcess } from '../../support/server-process.js';

interface Case {
  case: string;
  lengths: number[];
  forced_bos_token_id?: number;
  greedy?: number[][];
  beam1?: number[][];
  beam4: number[][];
}

/** The inputs of a case without the padding behind them. */
function promptsOf(directory: string, { case: name, lengths }: Case): number[][] {
  const file = readFileSync(join(directory, 'cases.safetensors'));
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + headerBytes).toString());
  const { data_offsets, shape } = header[`${name}.input_ids`] as { data_offsets: number[]; shape: number[] };
  const id = (at: number) => Number(file.readBigInt64LE(8 + headerBytes + data_offsets[0]! + at * 8));
  return lengths.map((length, row) => Array.from({ length }, (_, i) => id(row * shape[1]! + i)));
}

/** What transformers generated: without the start token, and nothing behind the end token. */
function generated([, ...tokens]: number[], end: number): number[] {
  const at = tokens.indexOf(end);
  return at < 0 ? tokens : tokens.slice(0, at + 1);
}

/** It is too large for the repository. */
const LARGE = 'switch-tiny-step1';
/** By fixture: the most tokens of its beam answers. Those of greedy answers are 16. */
const BEAM_TOKENS: [name: string, tokens: number][] = [
  ['switch-tiny-capacity4', 12],
  [LARGE, 12],
  ['nllb-moe-tiny', 16],
];

it.each(BEAM_TOKENS)(
  '%s has the greedy and beam answers of transformers at every budget',
  async (name, beamTokens) => {
    const directory = name === LARGE ? findFixture(name) : oracleFixture(name);
    if (directory === undefined) {
      console.log(`SKIPPED: fixture ${name} needs ../shared/oracle beside the repository`);
      return;
    }
    const cases = JSON.parse(readFileSync(join(directory, 'cases.json'), 'utf8')) as Case[];
    const { eos_token_id: end } = JSON.parse(readFileSync(join(directory, 'generation_config.json'), 'utf8'));
    const server = await ServerProcess.start(['--model', directory, '--memory-budget', '100%']);
    const { device } = (await server.get('/admin/budget')).body;
    for (const budget of ['100%', '50%', String(device.smallest_bytes)]) {
      expect((await server.request('PUT', '/admin/budget', { device: budget })).status).toBe(200);
      const asked = cases.flatMap((each) => {
        const { forced_bos_token_id, greedy, beam1, beam4 } = each;
        return promptsOf(directory, each).flatMap((prompt, row) =>
          [
            { num_beams: 4, max_tokens: beamTokens, texts: beam4 },
            { num_beams: 1, max_tokens: 16, texts: greedy ?? beam1! },
          ].map(async ({ num_beams, max_tokens, texts }) => {
            const wanted = generated(texts[row]!, end);
            const { status, body } = await server.post('/v1/completions', {
              prompt,
              num_beams,
              max_tokens,
              ...(forced_bos_token_id !== undefined && { forced_bos_token_id }),
              return_token_ids: true,
            });
            expect(status, JSON.stringify(body)).toBe(200);
            const what = `${each.case}, row ${row}, ${num_beams} beams, ${budget}`;
            expect(body.choices[0].token_ids, what).toEqual(wanted);
          }),
        );
      });
      await Promise.all(asked);
    }
    await server.stop();
  },
  180_000,
);
