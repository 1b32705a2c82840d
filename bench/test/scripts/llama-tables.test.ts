// The table that compares speeds with llama.cpp and ik_llama.cpp within limits on memory.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { REPOSITORY } from '../../src/support/paths.js';

it('names every system at every limit, with the medians of the rounds and how far sida is ahead', async () => {
  const { limitedTable } = await import(join(REPOSITORY, 'bench/scripts/gguf/tables.mjs'));
  const speed = (tokens: number) => ({ prefillTokensPerSecond: 10 * tokens, decodeTokensPerSecond: tokens });
  const limited = { share: 0.5, limitBytes: 2 ** 30, sida: speed(6) };
  const rows = [
    { share: null, limitBytes: null, sida: speed(8), peer: { ...speed(4), llama: 'v0.5.0' } },
    { ...limited, peer: null, ikLlama: speed(2) },
    { ...limited, peer: null, ikLlama: speed(4) },
  ];
  const about = { file: 'm.gguf', fileBytes: 2 ** 31, readAheadKib: 128, serve: '', threads: 2, rounds: 2 };
  const from = { command: 'node script.mjs', commit: 'abc1234', machine: 'a machine', isa: 'avx2' };
  const ikLlama = { commit: 'def5678', compiler: 'cc', flags: '--prefetch-experts' };
  const text: string = limitedTable({ ...from, ...about, promptTokens: 128, steps: 32, ikLlama, rows });
  expect(text.split('\n').slice(2, 8)).toEqual([
    '| all | `sida` | 80.0 |  | 8.00 |  |',
    '|  | llama.cpp | 40.0 | 2.00× | 4.00 | 2.00× |',
    '|  | ik_llama.cpp | not measured |  |  |  |',
    '| 1.00 GiB (50 %) | `sida` | 60.0 |  | 6.00 |  |',
    '|  | llama.cpp | killed by the limit |  |  |  |',
    '|  | ik_llama.cpp | 30.0 | 1.50 to 3.00× | 3.00 | 1.50 to 3.00× |',
  ]);
  expect(text.replaceAll('\n', ' ')).toContain(
    'llama.cpp v0.5.0, ik_llama.cpp def5678 (cc) with `--prefetch-experts`.',
  );
});
