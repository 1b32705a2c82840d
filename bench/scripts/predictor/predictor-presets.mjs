// What pays in a predictor? One network for the encoder's layers after another on the same traces for the same time:
// the paper's, the recommended, and what lies between; hits on held-out text against cost of a token.
//   node bench/scripts/predictor/predictor-presets.mjs --trace DIR --held-out DIR [--max-minutes 4] [--threads 2]
//     [--only paper]
//     [--state DIR]
// Each result lands as soon as it is there; started again, it goes on with what is missing (with --state inside a run).
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { resultFile, writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    trace: { type: 'string', multiple: true },
    'held-out': { type: 'string' },
    'max-minutes': { type: 'string', default: '4' },
    threads: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    state: { type: 'string' },
  },
});
if (!values.trace || !values['held-out']) throw new Error('--trace DIR and --held-out DIR are required');

// The grid of one point names what differs from the preset.
const VARIANTS = {
  paper: { preset: 'paper', grid: 'hidden=256' },
  "paper's network, recommended training": { preset: 'recommended', grid: 'blocks=0 hidden=256' },
  "paper's network, recommended training, sharpness 1": {
    preset: 'recommended',
    grid: 'blocks=0 hidden=256 sharpness=1',
  },
  'hidden 64': { preset: 'recommended', grid: 'hidden=64' },
  recommended: { preset: 'recommended', grid: 'hidden=128' },
  'hidden 256': { preset: 'recommended', grid: 'hidden=256' },
  'sharpness 1': { preset: 'recommended', grid: 'sharpness=1' },
};

const NAME = 'predictor-presets';
const FILE = resultFile(NAME);
const conditions = {
  traces: values.trace.map((path) => basename(path)),
  heldOut: basename(values['held-out']),
  maxMinutes: Number(values['max-minutes']),
  threads: Number(values.threads),
  seed: Number(values.seed),
};
const earlier = existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : undefined;
const same = JSON.stringify(earlier?.conditions) === JSON.stringify(conditions);
const runs = same ? earlier.runs : [];

async function train(name, { preset, grid }, out) {
  // biome-ignore format: a command line
  const printed = await sida(['train', ...values.trace, '--held-out', values['held-out'], '--out', out, '--preset', preset,
    '--search', '--grid', grid, '--max-minutes', values['max-minutes'], '--epochs', '1000', '--threads', values.threads,
    '--seed', values.seed, '--json'], { showErrors: true });
  const [{ steps, minutes, hits, loss, microsecondsPerToken, bytes }] = JSON.parse(printed).candidates;
  const options = `--preset ${preset} ${grid.replace(/(\S+)=(\S+)/g, '--$1 $2')}`;
  return { name, options, steps, minutes, hits, loss, microsecondsPerToken, bytes };
}

const dir = values.state ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  for (const [name, variant] of Object.entries(VARIANTS)) {
    if (values.only !== undefined && values.only !== name) continue;
    if (runs.some((run) => run.name === name)) continue;
    console.error(name);
    const out = join(dir, name.replaceAll(/[^a-z0-9]+/gi, '-'));
    runs.push({ ...(await train(name, variant, out)), commit: scriptProvenance().commit });
    const result = {
      question: 'What pays in a predictor, on held-out text, against the cost of a token?',
      ...scriptProvenance(),
      conditions,
      runs,
    };
    writeResult(NAME, result);
    const { hits, microsecondsPerToken, minutes } = runs.at(-1);
    console.error(
      `${name}: top-1 ${(100 * hits[0]).toFixed(1)} %, top-3 ${(100 * hits[2]).toFixed(1)} %, ${microsecondsPerToken.toFixed(1)} µs a token, ${minutes.toFixed(1)} minutes`,
    );
  }
} finally {
  if (values.state === undefined) rmSync(dir, { recursive: true, force: true });
}
