// Writes the reference tables of docs/ and bench/README.md from the code. Run after `npm run build:bench`.
//   node scripts/docs.mjs [--check]
// --check writes nothing and fails where a table is not what the code says.
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureCommand } from '../bench/dist/commands/measure.js';
import { evalCommand } from '../dist/cli/eval.js';
import { trainCommand } from '../dist/cli/train.js';
import { MODEL_OPTIONS } from '../dist/config/model-options.js';
import { OPTION_GROUPS, shownDefault } from '../dist/config/option.js';
import { SERVE_OPTIONS } from '../dist/config/options.js';
import { ERROR_CODES } from '../dist/errors.js';
import { noStats } from '../dist/queue/job-queue.js';
import { ROUTES } from '../dist/server/routes/index.js';
import { serverMetrics } from '../dist/server/server-metrics.js';
import { formatBytes } from '../dist/text/bytes.js';
import { wrapped } from '../dist/text/wrapped.js';

/** Families with the arithmetic, and the GGUF files, of another. */
const SAME_ARITHMETIC = { glm4_moe_lite: 'deepseek_v3' };
/** What outputs are compared with where it is not transformers. */
const TWO = 'llama.cpp, float64';
const REFERENCES = { gemma4: TWO, nomic_bert: TWO, qwen3_5_moe: TWO, qwen3_next: TWO };

const check = process.argv.includes('--check');
const stale = [];

/** Puts the text between the marks of that name. A table without its marks would be a reference that nobody reads. */
function fill(file, name, text) {
  const old = readFileSync(file, 'utf8');
  const marks = new RegExp(`(<!-- ${name}:[^>]*-->\\n)[\\s\\S]*?(<!-- end -->)`);
  if (!marks.test(old))
    throw new Error(`${file} has no place for the table "${name}": <!-- ${name}: … --> to <!-- end -->`);
  const filled = old.replace(marks, (_, begin, end) => `${begin}${text}\n${end}`);
  if (filled === old) return;
  if (check) stale.push(`${file}: the table "${name}" is not what the code says`);
  else writeFileSync(file, filled);
}

const shared = new Set(Object.values(SERVE_OPTIONS).map(({ flag }) => `--${flag}`));
// A list, where `serve` takes one value.
const LISTS = ['--routing-k'];
const ownsFlag = (flag) => LISTS.includes(flag) || !(shared.has(flag) || flag === '--config');

const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');

/** The options of a group, those of `--help` first. */
function groupTable(group) {
  const own = Object.values(SERVE_OPTIONS).filter((o) => o.group === group);
  const ordered = [...own.filter((o) => !o.expert), ...own.filter((o) => o.expert)];
  return table(
    ['flag', 'default', 'unit', 'what and why'],
    ordered.map((o) => {
      const what = o.more === undefined ? o.help : `${o.help}. ${o.more}`;
      const flag = `\`--${o.flag} ${o.value}\`${o.expert ? ' *' : ''}`;
      return [flag, shownDefault(o) ?? 'none', o.unit ?? '', what];
    }),
  );
}

fill(
  'docs/cli.md',
  'options',
  [
    'The environment name of `--memory-budget` is `SIDA_MEMORY_BUDGET`, and so on. `--help` leaves out the options marked',
    'with *; `--help-all` shows all.',
    ...Object.entries(OPTION_GROUPS).flatMap(([group, title]) => ['', `### ${title}`, '', groupTable(group)]),
  ].join('\n'),
);

fill(
  'docs/cli.md',
  'model options',
  wrapped(`${[...MODEL_OPTIONS].map((name) => `\`--${SERVE_OPTIONS[name].flag}\``).join(', ')}.`, 120).join(
    '\n',
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
fill('docs/cli.md', 'training', flagTable(trainCommand().options.filter(({ long }) => ownsFlag(long))));
fill('docs/cli.md', 'evaluation', flagTable(evalCommand().options.filter(({ long }) => ownsFlag(long))));
fill('bench/README.md', 'bench', flagTable(measureCommand('sida bench').options));

// No engine runs: names, types and help texts do not need one.
const idle = { state: { phase: 'starting', detail: '' }, model: undefined, counters: undefined, restarts: 0 };
const [metrics] = serverMetrics([{ engine: idle, queue: { stats: noStats() } }]);
const rows = (await metrics.registry.getMetricsAsJSON())
  .filter(({ name }) => !/^sida_(process|nodejs)_/.test(name))
  .map(({ name, type, help, values }) => {
    const declared = metrics.registry.getSingleMetric(name).labelNames ?? [];
    const labels =
      declared.length > 0 ? declared : [...new Set(values.flatMap((value) => Object.keys(value.labels)))];
    return [`\`${name}\``, type, labels.filter((label) => label !== 'le').join(', '), help];
  });
fill('docs/metrics.md', 'metrics', table(['metric', 'type', 'labels', 'meaning'], rows));

// What published checkpoints need, from their configs alone. The machine has no part in the figures.
const SHAPES = 'bench/scripts/shapes';
const PLAN = [
  '--memory-budget',
  '100%',
  '--context',
  '4096',
  '--threads',
  '2',
  '--dense',
  'bf16',
  '--activations',
  'int8',
];
const folder = mkdtempSync(join(tmpdir(), 'sida-docs-'));

/** Number of parameters, and the plan with experts of 4 bits. */
function planned(shape) {
  const model = join(folder, shape);
  mkdirSync(model);
  const config = JSON.parse(readFileSync(`${SHAPES}/${shape}.json`, 'utf8'));
  writeFileSync(join(model, 'config.json'), JSON.stringify({ ...config, torch_dtype: 'bfloat16' }));
  const context = Math.min(4096, config.max_position_embeddings ?? config.n_positions ?? 4096);
  const args = ['bundle/cli/main.js', 'plan', model, '--json', ...PLAN, '--context', String(context)];
  const { plan, choices } = JSON.parse(execFileSync(process.execPath, args));
  const parameters = plan.dense / 2 + plan.routers / 4 + plan.expertBytes / 2;
  const { plan: small } = choices.find(({ experts }) => experts.dtype === 'q4_0');
  return { modelType: config.model_type, parameters, plan: small };
}

// `notRead` are parameters of layers of multi-token prediction.
const checkpoints = JSON.parse(readFileSync(`${SHAPES}/checkpoints.json`, 'utf8')).map(
  ({ name, shape, parameters: published, notRead = 0 }) => {
    const found = { name, ...planned(shape) };
    // The published number is the control: a config that is misread has another.
    const counted = found.parameters + notRead;
    if (Math.abs(counted / published - 1) > 0.01)
      stale.push(`${name} has ${published} parameters, and its plan counts ${counted}`);
    return found;
  },
);
rmSync(folder, { recursive: true });
const needs = ['checkpoint', 'parameters', 'file, bf16', 'all experts', 'sensible', 'smallest'];
fill(
  'README.md',
  'checkpoints',
  table(
    needs,
    checkpoints.map(({ name, parameters, plan: { resident, recencyFloor, smallest } }) => {
      const sizes = [2 * parameters, resident, Math.min(resident, recencyFloor), smallest];
      return [name, `${(parameters / 1e9).toFixed(1)} billion`, ...sizes.map(formatBytes)];
    }),
  ),
);

// Families by their sources, their fixtures and the published checkpoints above.
const FAMILIES = 'native/src/spec/families';
const fixtures = [...readdirSync('test/fixtures'), ...readdirSync('test/fixtures/oracle')];
const families = readdirSync(FAMILIES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
fill(
  'docs/families.md',
  'families',
  table(
    ['family', 'compared with', 'GGUF', 'published as (smallest budget)'],
    families.map(({ name }) => {
      const prefix = name.replace('_transformers', '').replaceAll('_', '-');
      const own = fixtures.some((fixture) => fixture.startsWith(prefix) && fixture.includes('-tiny'));
      const gguf = name in SAME_ARITHMETIC || existsSync(`${FAMILIES}/${name}/gguf.cc`);
      const published = checkpoints.filter(
        ({ modelType }) => modelType.replaceAll('-', '_').replace(/_text$/, '') === name,
      );
      return [
        `\`${name}\``,
        own ? (REFERENCES[name] ?? 'transformers') : `as \`${SAME_ARITHMETIC[name]}\``,
        gguf ? 'yes' : 'no',
        published.map((each) => `${each.name} (${formatBytes(each.plan.smallest)})`).join(', '),
      ];
    }),
  ),
);

// Errors by status, and every route named on the page.
const statuses = [...new Set(Object.values(ERROR_CODES).map(({ status }) => status))].sort((a, b) => a - b);
fill(
  'docs/http-api.md',
  'errors',
  table(
    ['status', 'codes'],
    statuses.map((status) => [
      status,
      Object.entries(ERROR_CODES)
        .filter(([, error]) => error.status === status)
        .map(([code]) => `\`${code}\``)
        .join(', '),
    ]),
  ),
);
const restPage = readFileSync('docs/http-api.md', 'utf8');
for (const { method, path } of ROUTES) {
  const route = `${method.toUpperCase()} ${path.replace(/:(\w+)/g, '{$1}')}`;
  if (!restPage.includes(`\`${route}`)) stale.push(`docs/http-api.md does not name the route ${route}`);
}

for (const problem of stale) console.error(problem);
if (stale.length > 0) {
  console.error('Run `npm run build:ts && node scripts/docs.mjs` for the tables, and commit what it writes.');
  process.exit(1);
}
