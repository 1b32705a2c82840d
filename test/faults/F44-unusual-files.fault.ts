// Models with links, FIFOs, devices, sockets and endless files in place of their files.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { MINI } from '../support/server-process.js';
import { writeTiny } from '../support/tiny-checkpoint.js';
import { sida } from './checkpoints/command-line.js';
import { judgeCases, serveUntilReady } from './checkpoints/refusals.js';
import { TOKENIZER, writeTokenizer } from './checkpoints/served.js';
import { UNUSUAL_IN_CHECKPOINT, UNUSUAL_IN_PACK, UNUSUAL_IN_PREDICTOR } from './checkpoints/unusual-files.js';
import { fault } from './fault.js';

const root = mkdtempSync(join(tmpdir(), 'sida-unusual-'));
const at = (name: string) => join(root, name);
beforeAll(async () => {
  writeTiny(at('sound'));
  writeFileSync(join(at('sound'), 'tokenizer.json'), JSON.stringify(TOKENIZER));
  const packed = await sida(['convert', at('sound'), '--out', at('sound-pack')], at('peak'));
  expect(packed).toMatchObject({ code: 0 });
  writeTokenizer(at('sound-pack'), TOKENIZER);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

fault('F44', 'unusual files in a checkpoint', (report) =>
  judgeCases(UNUSUAL_IN_CHECKPOINT, report, {
    root,
    model: at('sound'),
    run: async (directory) => {
      const ended = await sida(['convert', directory, '--out', at('pack')], at('peak'));
      // Nothing of a file elsewhere may reach a pack, finished or not.
      const shadow = readFileSync('/etc/shadow');
      for (const made of ['pack', 'pack.partial'].map(at).filter(existsSync)) {
        for (const name of readdirSync(made)) expect(readFileSync(join(made, name))).not.toEqual(shadow);
      }
      return ended;
    },
  }),
);

fault('F44', 'unusual files in a pack', (report) =>
  judgeCases(UNUSUAL_IN_PACK, report, { root, model: at('sound-pack'), run: serveUntilReady(at('peak')) }),
);

fault('F44', 'unusual files in a predictor', (report) =>
  judgeCases(UNUSUAL_IN_PREDICTOR, report, {
    root,
    model: join(MINI, 'predictor'),
    run: (predictor) => {
      const flags = ['--model', MINI, '--pack-dir', at('packs'), '--predictor', predictor, '--data', data()];
      return sida(['eval', ...flags, '--template', '{text}', '--limit', '1'], at('peak'));
    },
  }),
);

function data(): string {
  const path = at('data.jsonl');
  writeFileSync(path, `${JSON.stringify({ text: 'a fine film '.repeat(50) })}\n`);
  return path;
}
