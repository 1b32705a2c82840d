// Writes the reference tables of docs/cli.md and docs/metrics.md from the code. Run after `npm run build:ts`.
import { readFileSync, writeFileSync } from 'node:fs';
import { benchCommand } from '../dist/cli/bench.js';
import { placementCommand } from '../dist/cli/bench-placement.js';
import { replayCommand } from '../dist/cli/bench-replay.js';
import { dependencyCommand } from '../dist/cli/dependency.js';
import { evalCommand } from '../dist/cli/eval.js';
import { SERVE_OPTIONS } from '../dist/config/options.js';
import { TRAINING_OPTIONS } from '../dist/predictor/training/options.js';
import { noStats } from '../dist/queue/job-queue.js';
import { serverMetrics } from '../dist/server/server-metrics.js';

function fill(file, name, text) {
  const old = readFileSync(file, 'utf8');
  writeFileSync(
    file,
    old.replace(new RegExp(`(<!-- ${name}:[^>]*-->\\n)[\\s\\S]*?(<!-- end -->)`), `$1${text}\n$2`),
  );
}

const shared = new Set(Object.values(SERVE_OPTIONS).map(({ flag }) => `--${flag}`));
// Lists, where `serve` takes one value.
const LISTS = ['--routing-k', '--lookahead'];
const ownsFlag = (flag) => LISTS.includes(flag) || !(shared.has(flag) || flag === '--config');

const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');

fill(
  'docs/cli.md',
  'options',
  table(
    ['flag', 'environment', 'default', 'unit', 'what and why'],
    Object.values(SERVE_OPTIONS).map((o) => {
      const fallback = o.defaultText ?? (o.default === undefined ? 'required' : (o.default ?? 'none'));
      return [`\`--${o.flag} ${o.value}\``, `\`${o.env}\``, fallback, o.unit ?? '', o.help];
    }),
  ),
);

fill(
  'docs/cli.md',
  'training',
  table(
    ['flag', 'paper', 'recommended', 'unit', 'what'],
    Object.values(TRAINING_OPTIONS).map(({ flag, value, paper, recommended, unit = '', help }) => [
      value === undefined ? `\`--${flag}\`, \`--no-${flag}\`` : `\`--${flag} ${value}\``,
      paper,
      recommended,
      unit,
      help,
    ]),
  ),
);

const flagTable = (options) =>
  table(
    ['flag', 'default', 'what'],
    options.map(({ flags, description, defaultValue }) => {
      const fallback = typeof defaultValue === 'string' ? defaultValue : '';
      return [`\`${flags}\``, fallback, description];
    }),
  );
fill('docs/cli.md', 'evaluation', flagTable(evalCommand().options.filter(({ long }) => ownsFlag(long))));
fill('docs/cli.md', 'replay', flagTable(replayCommand().options));
fill('docs/cli.md', 'placement', flagTable(placementCommand().options));
fill('docs/cli.md', 'bench', flagTable(benchCommand().options));
fill(
  'docs/cli.md',
  'dependency',
  flagTable(dependencyCommand().options.filter(({ long }) => ownsFlag(long))),
);

// No engine runs: names, types and help texts do not need one.
const idle = { state: { phase: 'starting', detail: '' }, model: undefined, counters: undefined, restarts: 0 };
const metrics = serverMetrics(idle, { stats: noStats() });
const rows = (await metrics.registry.getMetricsAsJSON())
  .filter(({ name }) => !/^sida_(process|nodejs)_/.test(name))
  .map(({ name, type, help, values }) => {
    const declared = metrics.registry.getSingleMetric(name).labelNames ?? [];
    const labels =
      declared.length > 0 ? declared : [...new Set(values.flatMap((value) => Object.keys(value.labels)))];
    return [`\`${name}\``, type, labels.filter((label) => label !== 'le').join(', '), help];
  });
fill('docs/metrics.md', 'metrics', table(['metric', 'type', 'labels', 'meaning'], rows));
