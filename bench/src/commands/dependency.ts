/** `sida bench dependency`: how much a token's expert depends on the other tokens. */
import { basename, resolve } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { Command } from 'commander';
import { readTasks } from '../../../dist/checkpoint/tasks.js';
import { addFlags, givenFlags } from '../../../dist/cli/flags.js';
import { number } from '../../../dist/cli/lists.js';
import { Progress } from '../../../dist/cli/progress.js';
import { formatTable } from '../../../dist/cli/table.js';
import { parseJoins } from '../../../dist/cli/trace.js';
import { resolveOptions, UsageError } from '../../../dist/config/resolve.js';
import { openModel } from '../../../dist/engine/open-model.js';
import { SidaError } from '../../../dist/errors.js';
import { readInputs } from '../../../dist/trace/data-file.js';
import { cut } from '../studies/corruption.js';
import { type CorruptionChanges, type DependencyReport, measureDependency } from '../studies/dependency.js';

const OPTIONS = ['memoryBudget', 'hostBudget', 'maxBatchTokens', 'threads', 'experts', 'packDir'] as const;

const HELP = `
Replaces a share of the tokens of each input, and counts by layer how many of the unchanged tokens go to another expert.
Then replaces single tokens, and counts the same by distance. A small predictor can learn routing that depends on few other
tokens (SiDA-MoE, figures 6 and 7). "c = 1" to "c = 4" is the paper's equation 2: the share that would change if that
many other tokens of each token were critical.

Examples:
  sida bench dependency models/switch-mini --data test/data/sst2-validation.jsonl --task sst2
  sida bench dependency models/switch-mini --data reviews.jsonl --template 'sst2 sentence: {text}' --shares 25%,50%,100% --limit 200 --json
  sida bench dependency models/switch-mini --data reviews.jsonl --template '{text}' --length 512 --swaps`;

export function dependencyCommand(): Command {
  const command = new Command('dependency')
    .description("Measure how a token's expert depends on the other tokens, by corrupting them")
    .argument('<model>', 'Hugging Face checkpoint or packed model')
    .requiredOption('--data <file>', 'JSON lines')
    .option('--template <text>', "input made of a line, with its fields in braces: 'sst2 sentence: {text}'")
    .option('--task <name>', 'template of a task that the model declares in sida.json')
    .option(
      '--join <field=file>',
      'replace the key in this field by the `text` of the row with the same key in another file of JSON lines; repeatable',
      (join: string, joins: string[] = []) => [...joins, join],
    )
    .option('--limit <n>', 'use only the first lines, or with --length the first inputs')
    .option('--shares <list>', 'shares of the other tokens to replace', '10%,25%,50%,75%,100%')
    .option('--swaps', 'also let the same shares of the other tokens change their places')
    .option('--length <n>', 'join the inputs and cut them into inputs of this many tokens')
    .option('--singles <n>', 'number of tokens of each input that are replaced alone', '4')
    .option('--seed <n>', 'seed of which tokens are replaced and by which', '1')
    .option('--json', 'print JSON');
  return addFlags(command, OPTIONS).addHelpText('after', HELP).action(dependency);
}

async function dependency(model: string, values: Record<string, unknown>): Promise<void> {
  const options = resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env });
  const directory = resolve(model);
  const shares = sharesOf(String(values.shares));
  const singles = number('singles', String(values.singles), 0, 1024);
  const seed = number('seed', String(values.seed), 0, 2 ** 31 - 1);
  const length =
    values.length === undefined ? undefined : number('length', String(values.length), 4, 2 ** 20);
  const file = String(values.data);
  const template = await templateOf(directory, values);
  const joins = parseJoins(values.join as string[] | undefined);
  const limit = values.limit === undefined ? undefined : number('limit', String(values.limit), 1, 2 ** 31);
  const texts = await readInputs({ file, template, joins });
  const progress = new Progress();
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    const { memoryBudget, hostBudget, maxBatchTokens, threads, experts, packDir } = options;
    const { name, engine, tokenizer } = await openModel({
      ...{ model: directory, memoryBudget, hostBudget, maxBatchTokens, threads, experts, packDir },
      ...{ newTokens: 0, sequences: 0, onProgress: progress.show.bind(progress) },
    });
    try {
      const encode = (text: string) => Int32Array.from(tokenizer.encode(text));
      const inputs =
        length === undefined
          ? texts.slice(0, limit).map(encode)
          : cut(texts.map(encode), length).slice(0, limit);
      // An input of one word has no other token to replace.
      const usable = inputs.filter((tokens) => tokens.length > 2 && tokens.length <= maxBatchTokens);
      if (usable.length === 0) {
        throw new SidaError({
          code: 'cannot_run',
          message: `${file} has no input of ${length ?? 3} to ${maxBatchTokens} tokens`,
        });
      }
      const measured = await measureDependency(engine, usable, {
        shares,
        swaps: values.swaps === true,
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
  const tasks = readTasks(directory);
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

function describe(report: DependencyReport): string {
  const { model, data, inputs, tokens, layers, corruption, swaps, controls, distance } = report;
  const percent = (value: number) => (100 * value).toFixed(1);
  const rows = (label: string, entries: [string, number, number[]][], more: string[] = []) =>
    formatTable(`lr${'r'.repeat(layers.length + more.length)}`, [
      [label, 'looked at', ...layers.map((layer) => `${layer}, %`), ...more],
      ...entries.map(([name, probes, shares]) => [name, String(probes), ...shares.map(percent)]),
    ]);
  const byShare = (label: string, changes: readonly CorruptionChanges[]) =>
    rows(
      label,
      changes.map(({ share, probes, changed, equation }) => [
        `${percent(share)} %`,
        probes,
        [...changed, ...(equation?.expected ?? [])],
      ]),
      changes[0]?.equation?.expected.map((_, c) => `c = ${c + 1}, %`),
    );
  return [
    `${model} on ${data}: ${inputs} inputs, ${tokens} tokens; tokens routed to another expert`,
    byShare('others replaced', corruption),
    ...(swaps === undefined ? [] : [byShare('others moved', swaps)]),
    rows(
      'one replaced, at a distance of',
      distance.map(({ least, most, probes, changed }) => [
        most > 1e6 ? `${least} or more` : least === most ? String(least) : `${least}–${most}`,
        probes,
        changed,
      ]),
    ),
    ...(controls === undefined
      ? []
      : [
          rows('control', [
            ['the same input again', controls.again.probes, controls.again.changed],
            ['another token of the input', controls.anotherToken.probes, controls.anotherToken.changed],
          ]),
        ]),
  ].join('\n\n');
}
