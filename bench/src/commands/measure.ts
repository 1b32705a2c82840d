/** `sida bench`: throughput and latency against memory, system by system. */
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { Command } from 'commander';
import { number } from '../../../dist/cli/lists.js';
import { UsageError } from '../../../dist/config/resolve.js';
import { SidaError } from '../../../dist/errors.js';
import { CUDA_SIZES, FULL_SIZES, QUICK_SIZES } from '../preparation/sizes.js';
import { BENCH_FILE, type BenchFile, summarize } from '../report/bench-file.js';
import { writeReport } from '../report/report.js';
import { readGpu } from '../runs/gpu.js';
import { measureAll } from '../runs/measure-all.js';
import type { BenchResult } from '../runs/result.js';
import { cudaStages } from '../scenarios/cuda-stages.js';
import { expand, FULL, type Measurement, measurementName, QUICK, select } from '../scenarios/scenarios.js';
import { FULL_STUDIES, QUICK_STUDIES, runStudies, type Study, selectStudies, studyName } from '../studies/studies.js';

const HELP = `
Every system runs every scenario in its own process, warmed up, round by round, so that a slow minute of the machine
affects all systems alike. Packs, traces and predictors are made in --work. The results directory keeps finished runs, and
a repeated command skips them. Answers of exact systems must have the bits of the resident run; otherwise the command ends
with 1.

A name is model/data/budget/link[/batch-N]/system; * stands for anything:
  sida bench --quick --only 'switch-mini/*/lru' --only 'switch-mini/*/lstm'`;

export function measureCommand(name: string): Command {
  return new Command(name)
    .description('Measure systems side by side under memory budgets, and write a report')
    .option(
      '--device <name>',
      'cpu, or cuda: the measurements for a GPU, the most valuable first (npm run bench:cuda has more)',
      'cpu',
    )
    .option('--minutes <n>', 'with --device cuda: stop what still runs then')
    .option('--prepare', 'with --device cuda: make packs, traces and predictors, and measure nothing')
    .option('--quick', 'a small part, five to ten minutes on two cores with everything that it needs')
    .option('--only <pattern>', 'scenario/system to run; repeatable', (one: string, all: string[] = []) => [
      ...all,
      one,
    ])
    .option('--list', 'print the names of all measurements and end')
    .option('--out <dir>', 'directory for results; default bench/results/systems, with --quick bench/results/quick')
    .option('--work <dir>', 'where packs, traces and predictors are made', 'build/bench')
    .option(
      '--data <dir>',
      'texts of the tasks: sst2/, mrpc/, multirc/ with validation.jsonl or test.jsonl and train.jsonl (default `data` where there is one, else the bundled sentences of SST-2)',
    )
    .option('--rounds <n>', 'runs of each measurement (default 3, with --quick 2)')
    .option('--sentences <n>', 'texts in each measurement, in place of the default of its model and task')
    .option('--threads <n>', 'threads that compute (default: the cores of this machine)')
    .option('--keep', 'leave packs of random-weight models on the disk')
    .addHelpText('after', HELP)
    .action(bench);
}

async function bench(values: Record<string, unknown>): Promise<void> {
  const quick = values.quick === true;
  const patterns = (values.only as string[] | undefined) ?? [];
  const cuda = onCuda(values);
  const stages = cuda ? cudaStages(patterns) : undefined;
  const measurements = stages?.flat() ?? select(expand(quick ? QUICK : FULL), patterns);
  const studies = cuda ? [] : selectStudies(quick ? QUICK_STUDIES : FULL_STUDIES, patterns);
  if (measurements.length + studies.length === 0) {
    throw new UsageError(
      `Nothing fits --only ${patterns.join(', ')}: \`sida bench${quick ? ' --quick' : ''}${cuda ? ' --device cuda' : ''} --list\` prints the names`,
    );
  }
  if (values.list === true) {
    const names = [...measurements.map(measurementName), ...studies.map(studyName)];
    process.stdout.write(`${names.join('\n')}\n`);
    return;
  }
  const out = resolve(String(values.out ?? join('bench/results', cuda ? 'cuda' : quick ? 'quick' : 'systems')));
  const file = await measure(values, { quick, measurements, stages, studies, out });
  if (values.prepare === true) return;
  const files = await writeReport(file, out);
  process.stdout.write(`${files.map((name) => join(out, name)).join('\n')}\n`);
  const failed = file.failed ?? [];
  if (file.differing.length + failed.length === 0) return;
  const differing = `Answers differ from the resident run, bit for bit, in ${file.differing.join(', ')}`;
  const message = failed.length > 0 ? `Measurements failed: ${failed.join(', ')}` : differing;
  throw new SidaError({ code: 'cannot_run', message });
}

function onCuda({ device }: Record<string, unknown>): boolean {
  if (device === 'cpu' || device === 'cuda') return device === 'cuda';
  throw new UsageError(`--device ${device}: expected cpu or cuda`);
}

interface Work {
  quick: boolean;
  measurements: readonly Measurement[];
  stages: readonly (readonly Measurement[])[] | undefined;
  studies: readonly Study[];
  out: string;
}

async function measure(
  values: Record<string, unknown>,
  { quick, measurements, stages, studies, out }: Work,
): Promise<BenchFile> {
  const sizes = sizesOf(values, quick, stages !== undefined);
  const common = {
    out,
    work: resolve(String(values.work)),
    data: dataDirectory(values.data as string | undefined),
    threads: number('threads', String(values.threads ?? availableParallelism()), 1, 1024),
  };
  mkdirSync(out, { recursive: true });
  const say = (text: string) => process.stderr.write(`${text}\n`);
  const onGpu = stages && {
    ...{ stages, gpu: await readGpu(), prepareOnly: values.prepare === true },
    signal: stopSignal(values.minutes),
    onResult: (result: BenchResult) => {
      const file = join(out, BENCH_FILE);
      writeFileSync(`${file}.tmp`, `${JSON.stringify(summarize(result, []))}\n`);
      renameSync(`${file}.tmp`, file);
    },
  };
  const begin = performance.now();
  const found = await runStudies(studies, { ...common, inputs: sizes.study, onStep: say });
  const result = await measureAll(
    {
      ...{ ...common, command: commandText(), quick, measurements, sizes },
      keep: values.keep === true || values.prepare === true,
      ...onGpu,
    },
    say,
  );
  const seconds = (performance.now() - begin) / 1000;
  say(
    `${result.measurements.length} measurements and ${studies.length} studies in ${Math.ceil(seconds / 60)} min; answers of ${result.comparisons} exact runs compared, ${result.differing.length} differ`,
  );
  return summarize({ ...result, seconds, skipped: [...found.skipped, ...result.skipped] }, found.fidelity);
}

/** After the time, or at the first SIGINT or SIGTERM: what there is gets written. A second one ends the program. */
function stopSignal(minutes: unknown): AbortSignal {
  const [most, stop] = [Number(minutes ?? 1440), new AbortController()];
  if (!(most > 0)) throw new UsageError(`--minutes ${minutes}: expected a number above 0, such as 10`);
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());
  return AbortSignal.any([stop.signal, AbortSignal.timeout(Math.ceil(60_000 * most))]);
}

function sizesOf(values: Record<string, unknown>, quick: boolean, cuda: boolean): typeof FULL_SIZES {
  const own = cuda ? CUDA_SIZES : quick ? QUICK_SIZES : FULL_SIZES;
  const sentences = values.sentences === undefined ? undefined : number('sentences', String(values.sentences), 1, 1e6);
  return {
    ...own,
    ...(values.rounds !== undefined && { rounds: number('rounds', String(values.rounds), 1, 1000) }),
    ...(sentences !== undefined && { sentences: () => sentences }),
  };
}

function dataDirectory(given: string | undefined): string | undefined {
  const directory = given ?? 'data';
  if (existsSync(directory)) return resolve(directory);
  if (given === undefined) return undefined;
  throw new UsageError(`--data ${given} is no directory: it holds sst2/validation.jsonl, mrpc/test.jsonl and so on`);
}

/** The command as given. Absolute paths are reduced to their names. */
function commandText(): string {
  const args = process.argv.slice(2).map((arg) => (arg.startsWith('/') ? basename(arg) : arg));
  return ['sida bench', ...args.map((arg) => (/[*\s]/.test(arg) ? `'${arg}'` : arg))].join(' ');
}
