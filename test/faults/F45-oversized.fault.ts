// Models whose files are far too large, or ask for far more memory than they have bytes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { MINI } from '../support/server-process.js';
import { writeTiny } from '../support/tiny-checkpoint.js';
import { sida } from './checkpoints/command-line.js';
import { OVERSIZED_CHECKPOINTS, OVERSIZED_PACKS, OVERSIZED_PREDICTORS } from './checkpoints/oversized.js';
import { judgeCases, serveUntilReady } from './checkpoints/refusals.js';
import { fault } from './fault.js';

const root = mkdtempSync(join(tmpdir(), 'sida-oversized-'));
const at = (name: string) => join(root, name);
beforeAll(async () => {
  writeTiny(at('sound'));
  const packed = await sida(['convert', at('sound'), '--out', at('sound-pack')], at('peak'));
  expect(packed).toMatchObject({ code: 0 });
  writeFileSync(at('data.jsonl'), `${JSON.stringify({ text: 'a fine film '.repeat(50) })}\n`);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

fault('F45', 'oversized checkpoints', (report) =>
  judgeCases(OVERSIZED_CHECKPOINTS, report, {
    root,
    model: at('sound'),
    // A conversion reads what a server would read later, such as sida.json, and copies it as it is.
    run: async (directory) => {
      const ended = await sida(['convert', directory, '--out', at('pack')], at('peak'));
      return ended.code === 0 ? serveUntilReady(at('peak'))(at('pack')) : ended;
    },
  }),
);

fault('F45', 'oversized packs', (report) =>
  judgeCases(OVERSIZED_PACKS, report, { root, model: at('sound-pack'), run: serveUntilReady(at('peak')) }),
);

fault('F45', 'oversized predictors', (report) =>
  judgeCases(OVERSIZED_PREDICTORS, report, {
    root,
    model: join(MINI, 'predictor'),
    run: (predictor) => {
      const flags = ['--model', MINI, '--pack-dir', at('packs'), '--predictor', predictor];
      const data = ['--data', at('data.jsonl'), '--template', '{text}', '--limit', '1'];
      return sida(['eval', ...flags, ...data], at('peak'));
    },
  }),
);
