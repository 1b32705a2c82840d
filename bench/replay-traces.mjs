// What does each policy move over real routing? `sida bench replay` on every recorded trace of a directory (route_trace
// CSV, gzipped or not), and on our own model's routing of SST-2's validation set; one cache for all layers, and one each.
//   node bench/replay-traces.mjs --traces DIR [--only qwen,switch-mini] [--svg docs]
// --svg: the charts of the first trace go there.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { commandText, machine } from './predictor-systems.mjs';

const { values } = parseArgs({
  options: { traces: { type: 'string' }, only: { type: 'string' }, svg: { type: 'string' } },
});

const GRID = ['--cache', '5%,10%,25%,50%', '--lookahead', '0,1,4,16'];
const BLIND = 'fifo,lru,lfu,lifo,expert-buffering,static-hot,belady';
const folder = mkdtempSync(join(tmpdir(), 'sida-replay-'));

function sida(...args) {
  const child = spawnSync('node', ['dist/cli/main.js', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 28,
  });
  if (child.status !== 0) throw new Error(`sida ${args[0]} ended with ${child.status ?? child.signal}`);
  return child.stdout;
}

/** Recorded traces by name, and ours. */
function* sources() {
  const files = existsSync(values.traces ?? '') ? readdirSync(values.traces) : [];
  const recorded = files.filter((file) => /\.csv(\.gz)?$/.test(file)).sort();
  if (recorded.length === 0) {
    console.error(`SKIPPED: the recorded traces; ${values.traces ?? '--traces'} holds no CSV files`);
  }
  for (const file of recorded) {
    yield { name: file.replace(/\.csv(\.gz)?$/, ''), open: () => [join(values.traces, file)] };
  }
  const pack = ['--pack-dir', join(folder, 'packs')];
  const open = () => {
    const { plan } = JSON.parse(sida('plan', 'models/switch-mini', '--json'));
    const data = ['--data', 'test/data/sst2-validation.jsonl', '--template', 'sst2 sentence: {text}'];
    const out = join(folder, 'trace');
    sida('trace', 'models/switch-mini', ...data, '--max-new-tokens', '1', '--out', out, ...pack);
    return [out, '--expert-bytes', String(plan.slot)];
  };
  yield { name: 'switch-mini', open };
}

try {
  let charts = values.svg;
  for (const { name, open } of sources()) {
    if (values.only !== undefined && !values.only.split(',').includes(name)) continue;
    console.error(name);
    const trace = open();
    const replay = (...args) => {
      const report = JSON.parse(sida('bench', 'replay', ...trace, ...GRID, '--json', ...args));
      return { ...report, trace: basename(trace[0]) };
    };
    const result = {
      question: 'What does each policy move over recorded routing?',
      command: commandText('replay-traces.mjs'),
      ...machine(),
      shared: replay(...(charts === undefined ? [] : ['--svg', join(folder, 'charts')])),
      perLayer: replay('--per-layer', '--policies', BLIND),
    };
    if (charts !== undefined) {
      for (const chart of ['miss-rate', 'bytes']) {
        copyFileSync(join(folder, 'charts', `${chart}.svg`), join(charts, `replay-${chart}.svg`));
      }
      charts = undefined;
    }
    writeFileSync(`bench/results/replay-${name}.json`, `${JSON.stringify(result)}\n`);
    console.error(`bench/results/replay-${name}.json`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
