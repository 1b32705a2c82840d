// NLLB-MoE over HTTP against the fixture's answers: greedy and four beams with a forced first token.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REPO, ServerProcess } from '../../support/server-process.js';
import { readInputIds } from '../engine/process-fixture.js';

const FIXTURE = join(REPO, '../shared/oracle/fixtures/nllb-moe-tiny');
const hasFixture = existsSync(FIXTURE);
if (!hasFixture)
  console.warn('SKIPPED: NLLB-MoE over HTTP, ../shared/oracle/fixtures/nllb-moe-tiny does not exist');

interface Case {
  case: string;
  lengths: number[];
  forced_bos_token_id: number;
  beam1: number[][];
  beam4: number[][];
}

/** The ids behind the decoder's start token, up to the first end token. */
function generated(ids: number[]): number[] {
  const end = ids.indexOf(2, 1);
  return ids.slice(1, end < 0 ? undefined : end + 1);
}

describe.skipIf(!hasFixture)('NLLB-MoE', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', FIXTURE, '--memory-budget', '100%']);
  });
  afterAll(() => server.stop());

  it.each(['100%', '50%', 'smallest'])('gives the answers of transformers within %s', async (budget) => {
    const { device } = (await server.get('/admin/budget')).body;
    const bytes = budget === 'smallest' ? String(device.smallest_bytes) : budget;
    expect((await server.request('PUT', '/admin/budget', { device: bytes })).status).toBe(200);
    const inputIds = readInputIds(join(FIXTURE, 'cases.safetensors'));
    const cases = JSON.parse(readFileSync(join(FIXTURE, 'cases.json'), 'utf8')) as Case[];
    const asked = cases.flatMap(({ case: name, lengths, forced_bos_token_id, beam1, beam4 }) => {
      const rows = inputIds(name, Math.max(...lengths));
      return lengths.flatMap((length, row) =>
        [1, 4].map((num_beams) => ({
          body: { prompt: rows[row]!.slice(0, length), forced_bos_token_id, num_beams, max_tokens: 16 },
          expected: generated((num_beams === 1 ? beam1 : beam4)[row]!),
        })),
      );
    });
    await Promise.all(
      asked.map(async ({ body, expected }) => {
        const answer = await server.post('/v1/completions', { ...body, return_token_ids: true });
        expect(answer.status, JSON.stringify(answer.body)).toBe(200);
        expect(answer.body.choices[0].token_ids, JSON.stringify(body)).toEqual(expected);
      }),
    );
  });
});
