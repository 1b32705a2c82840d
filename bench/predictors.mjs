// What is a prediction worth? The bundled model on SST-2's validation set, one sentence a batch, queue kept full:
// resident, on demand (every policy), token, lstm, graph+lstm, replay and shuffled, at four budgets and two
// look-aheads, from disk and over a simulated 12 GB/s link.
//   node bench/predictors.mjs --predictor DIR --trace DIR --hot-trace DIR [--rounds 3] [--sentences 872] [--threads N]
//     [--only token,lstm] [--links disk] [--shares 25] [--lookaheads 4] [--name predictors]
// DIR: a directory of `sida train`, the trace of test/data/sst2-validation.jsonl that replay reads, and the trace of
// the training set, whose hottest experts a static policy would keep.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { loadAddon } from '../dist/native/addon.js';
import { commandText, LINKS, measureSystems, POLICIES } from './predictor-systems.mjs';

const { values } = parseArgs({
  options: {
    predictor: { type: 'string', default: 'models/switch-mini/predictor' },
    trace: { type: 'string' },
    'hot-trace': { type: 'string' },
    rounds: { type: 'string', default: '3' },
    sentences: { type: 'string', default: '872' },
    threads: { type: 'string', default: String(availableParallelism()) },
    only: { type: 'string' },
    links: { type: 'string', default: Object.keys(LINKS).join() },
    shares: { type: 'string', default: '100,50,25,12.5' },
    lookaheads: { type: 'string', default: '1,4' },
    name: { type: 'string', default: 'predictors' },
  },
});
if (values.trace === undefined)
  throw new Error('--trace DIR is required: `sida trace` of the validation set');
const list = (text) => text.split(',').map((part) => part.trim());
const PREDICTING = ['token', 'lstm', 'graph+lstm', 'replay', 'shuffled'];
/** Sentences before the clock runs; over the link enough to bring all experts to host memory. */
const WARM_UP = { disk: 50, 'simulated link': 400 };

const shares = list(values.shares).map((text) => Number(text) / 100);
const lookaheads = list(values.lookaheads).map(Number);
const most = Math.max(...lookaheads);
const wanted = values.only === undefined ? undefined : ['resident', ...list(values.only)];
const setups = list(values.links).flatMap((link) => [
  { system: 'resident', share: 1, lookahead: most, link, warmUp: Number(values.sentences) },
  ...shares.flatMap((share) => {
    const systems = [
      // Without predictions nothing looks ahead; at 100 % no table is built: one run says it.
      ...POLICIES.filter(() => share < 1).map((policy) => ({ system: `none, ${policy}`, lookahead: most })),
      ...PREDICTING.flatMap((system) =>
        (share < 1 ? lookaheads : [most]).map((lookahead) => ({ system, lookahead })),
      ),
    ];
    return systems.map((one) => ({ ...one, share, link, warmUp: WARM_UP[link] }));
  }),
]);

const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const { pack } = await convertCheckpoint({
    model: 'models/switch-mini',
    out: join(dir, 'pack'),
    experts: 'auto',
    dense: 'auto',
  });
  const limits = { maxBatchTokens: 2048, kvTokens: 3072, threads: Number(values.threads) };
  const texts = readFileSync('test/data/sst2-validation.jsonl', 'utf8')
    .trim()
    .split('\n')
    .slice(0, Number(values.sentences))
    .map((line) => `sst2 sentence: ${JSON.parse(line).text}`);
  const result = await measureSystems({
    name: values.name,
    about: {
      question: 'What is a prediction worth: time, bytes and answers against every policy without one?',
      command: commandText('predictors.mjs'),
      threads: Number(values.threads),
      seed: 'none: nothing is drawn at random',
    },
    setups: setups.filter(({ system }) => wanted === undefined || wanted.includes(system.split(',')[0])),
    rounds: Number(values.rounds),
    work: {
      pack,
      slotBytes: loadAddon().planMemory({ pack }, limits).slot,
      texts,
      labels: ['negative', 'positive'],
      predictor: values.predictor,
      trace: values.trace,
      hotTrace: values['hot-trace'],
      engine: { threads: values.threads },
    },
  });
  process.exitCode = result.differing === 0 ? 0 : 1;
} finally {
  rmSync(dir, { recursive: true, force: true });
}
