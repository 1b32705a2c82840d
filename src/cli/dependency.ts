/** `sida dependency`: how much a token's expert depends on the other tokens. */
import { basename, resolve } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { Command } from 'commander';
import { preparePack } from '../checkpoint/prepare-pack.js';
import { budgetBytes, hostBudgetBytes } from '../config/budget.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { readTasks, readTokenizer } from '../engine/model-directory.js';
import { SidaError } from '../errors.js';
import { type DependencyReport, measureDependency } from '../evaluation/dependency.js';
import { loadAddon } from '../native/addon.js';
import { readInputs } from '../trace/data-file.js';
import { addFlags, givenFlags } from './flags.js';
import { number } from './lists.js';
import { Progress } from './progress.js';
import { formatTable } from './table.js';
import { parseJoins } from './trace.js';

const OPTIONS = ['memoryBudget', 'hostBudget', 'maxBatchTokens', 'threads', 'experts', 'packDir'] as const;

const HELP = `
Replaces a share of the tokens of each input by others and counts how many of the tokens left alone are routed to another
expert then, layer by layer; then replaces single tokens and counts the same by distance. Routing that depends on few other
tokens is what a small predictor can learn (SiDA-MoE, figures 6 and 7).

Examples:
  sida dependency models/switch-mini --data test/data/sst2-validation.jsonl --task sst2
  sida dependency models/switch-mini --data reviews.jsonl --template 'sst2 sentence: {text}' --shares 25%,50%,100% --limit 200 --json`;

export function dependencyCommand(): Command {
  const command = new Command('dependency')
    .description("Measure how a token's expert depends on the other tokens, by corrupting them")
    .argument('<model>', 'Hugging Face checkpoint or packed model')
    .requiredOption('--data <file>', 'JSON lines')
    .option('--template <text>', "input of a line, its fields in braces: 'sst2 sentence: {text}'")
    .option('--task <name>', 'template of a task that the model declares in sida.json')
    .option(
      '--join <field=file>',
      "a field is a key into other JSON lines: rows there hold the same field and `text`, which takes the key's place; repeatable",
      (join: string, joins: string[] = []) => [...joins, join],
    )
    .option('--limit <n>', 'first lines only')
    .option('--shares <list>', 'shares of the other tokens to replace', '10%,25%,50%,75%,100%')
    .option('--singles <n>', 'tokens of each input that are replaced alone', '4')
    .option('--seed <n>', 'of which tokens are replaced, and by what', '1')
    .option('--json', 'print JSON');
  return addFlags(command, OPTIONS).addHelpText('after', HELP).action(dependency);
}

async function dependency(model: string, values: Record<string, unknown>): Promise<void> {
  const options = resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env });
  const directory = resolve(model);
  const shares = sharesOf(String(values.shares));
  const singles = number('singles', String(values.singles), 0, 1024);
  const seed = number('seed', String(values.seed), 0, 2 ** 31 - 1);
  const file = String(values.data);
  const template = await templateOf(directory, values);
  const joins = parseJoins(values.join as string[] | undefined);
  const limit = values.limit === undefined ? undefined : number('limit', String(values.limit), 1, 2 ** 31);
  const texts = (await readInputs({ file, template, joins })).slice(0, limit);
  const progress = new Progress();
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    const { pack, name } = await preparePack({
      model: directory,
      packDir: options.packDir,
      experts: options.experts,
      onProgress: progress.show.bind(progress),
    });
    const addon = loadAddon();
    const { maxBatchTokens, threads } = options;
    const limits = { maxBatchTokens, threads, kvTokens: maxBatchTokens + addon.kvPageTokens };
    const plan = addon.planMemory({ pack }, limits);
    const engine = new addon.Engine({
      pack,
      budgetBytes: budgetBytes(options.memoryBudget, plan),
      hostBudgetBytes: hostBudgetBytes(options.hostBudget, plan),
      linkBandwidth: 0,
      linkLatency: 0,
      ...limits,
    });
    try {
      const tokenizer = await readTokenizer(directory, {
        vocabSize: engine.shape.vocabSize,
        maxInputBytes: 1 << 24,
      });
      if (tokenizer === undefined) {
        throw new SidaError({
          code: 'cannot_run',
          message: `${model} has no tokenizer.json: texts cannot be read`,
        });
      }
      const inputs = texts.map((text) => Int32Array.from(tokenizer.encode(text)));
      // Of one word there is nothing else to replace.
      const usable = inputs.filter(({ length }) => length > 2 && length <= maxBatchTokens);
      if (usable.length === 0) {
        throw new SidaError({
          code: 'cannot_run',
          message: `${file} has no input of 3 to ${maxBatchTokens} tokens`,
        });
      }
      const measured = await measureDependency(engine, usable, {
        shares,
        singles,
        seed,
        onProgress: async (done, total) => {
          progress.show({ phase: 'evaluate', done, total });
          await yieldToEvents();
          if (stopped) throw new Error('Interrupted');
        },
      });
      progress.stop();
      const report: DependencyReport = { model: name, data: basename(file), ...measured };
      process.stdout.write(`${values.json === true ? JSON.stringify(report, null, 1) : describe(report)}\n`);
    } finally {
      engine.close();
    }
  } finally {
    progress.stop();
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

async function templateOf(directory: string, { template, task }: Record<string, unknown>): Promise<string> {
  if ((template === undefined) === (task === undefined)) {
    throw new UsageError('Expected either --template or --task');
  }
  if (template !== undefined) return String(template);
  const tasks = await readTasks(directory);
  const own = tasks[String(task)];
  if (own !== undefined) return own.template;
  throw new UsageError(
    `The model declares no task ${JSON.stringify(task)}: it has ${Object.keys(tasks).join(', ') || 'none'}`,
  );
}

function sharesOf(text: string): number[] {
  return text.split(',').map((part) => {
    const share = /^\s*\d+(\.\d+)?\s*%\s*$/.test(part) ? Number.parseFloat(part) / 100 : Number.NaN;
    if (share > 0 && share <= 1) return share;
    throw new UsageError(`Expected --shares to be shares such as 25%,50%, found ${JSON.stringify(part)}`);
  });
}

function describe({ model, data, inputs, tokens, layers, corruption, distance }: DependencyReport): string {
  const percent = (value: number) => (100 * value).toFixed(1);
  const rows = (label: string, entries: [string, number, number[]][]) =>
    formatTable(`lr${'r'.repeat(layers.length)}`, [
      [label, 'looked at', ...layers.map((layer) => `${layer}, %`)],
      ...entries.map(([name, probes, changed]) => [name, String(probes), ...changed.map(percent)]),
    ]);
  return [
    `${model} on ${data}: ${inputs} inputs, ${tokens} tokens; tokens routed to another expert`,
    rows(
      'others replaced',
      corruption.map(({ share, probes, changed }) => [`${percent(share)} %`, probes, changed]),
    ),
    rows(
      'one replaced, at a distance of',
      distance.map(({ least, most, probes, changed }) => [
        most > 1e6 ? `${least} or more` : least === most ? String(least) : `${least}–${most}`,
        probes,
        changed,
      ]),
    ),
  ].join('\n\n');
}
