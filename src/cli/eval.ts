/** `sida eval`: measures a predictor on data. */

import { resolve } from 'node:path';
import { Command } from 'commander';
import { type PreparedPack, preparePack } from '../checkpoint/prepare-pack.js';
import { readTasks } from '../checkpoint/tasks.js';
import { WEIGHT_OPTIONS, weightChoices } from '../config/engine-config.js';
import type { ServeOptions } from '../config/options.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { requireTokenizer } from '../engine/open-model.js';
import { predictorChoice } from '../engine/predictor-choice.js';
import { SidaError } from '../errors.js';
import { type EvaluationSource, evaluate, type MeasuredFunction } from '../evaluation/evaluate.js';
import { type DataLine, readLabelled } from '../evaluation/labelled-data.js';
import { dataSource, readTextLines, type SourceLimits, textSource } from '../evaluation/sources.js';
import { isPresent } from '../files/model-file.js';
import { openEngine } from '../inference/open-engine.js';
import { activationsOf } from '../inference/sizes.js';
import { loadAddon } from '../native/addon.js';
import type { Engine } from '../native/addon-types.js';
import { embedsOnly } from '../native/model-shape.js';
import { openPredictor, TOKEN_TABLE } from '../predictor/predictor-directory.js';
import { MANIFEST, networksOf, readPredictorManifest } from '../predictor/training/manifest.js';
import { tableK } from '../protocol/hash-table.js';
import type { HashFunctionName } from '../protocol/predictor-messages.js';
import { printJson, printLines, warnLines } from '../text/print.js';
import { describeEvaluation, type EvaluationReport } from './eval-report.js';
import { type EvalRequest, requestOf } from './eval-request.js';
import { addFlags, givenFlags } from './flags.js';
import { Progress } from './progress.js';

const OPTIONS = [
  'model',
  'predictor',
  'hashFunction',
  'memoryBudget',
  'hostBudget',
  'maxBatchTokens',
  'context',
  'kvTokens',
  'kv',
  'kvWindows',
  'kvStates',
  'threads',
  ...WEIGHT_OPTIONS,
  'activations',
  'device',
  'packDir',
] as const;
type Options = Pick<ServeOptions, (typeof OPTIONS)[number]>;

const HELP = `
Examples:
  sida eval models/switch-words --predictor predictors/words --data models/switch-words/words/known-held-out.jsonl --task category
  sida eval models/olmoe-mini --predictor predictors/chats --text wikitext2/test.txt --routing-k 1,2,3 --json
  sida eval --model MODEL --data reviews.jsonl --template 'sentence: {text}' --labels negative,positive
  sida eval models/switch-words --hash-function token --data models/switch-words/words/unknown.jsonl --task category --limit 100`;

export function evalCommand(): Command {
  const command = new Command('eval')
    .argument('[model]', 'Hugging Face checkpoint or packed model; or --model')
    .option('--data <file>', 'JSON lines')
    .option('--template <text>', "input made of a line, with its fields in braces: 'category of: {text}'")
    .option(
      '--labels <list>',
      'labels to score; the field `label` of a line holds the name or the index of the right one',
    )
    .option('--task <name>', 'template and labels of a task that the model declares in sida.json')
    .option(
      '--join <field=file>',
      'replace the key in this field by the `text` of the row with the same key in another file of JSON lines; repeatable',
      (join: string, joins: string[] = []) => [...joins, join],
    )
    .option(
      '--text <file>',
      'plain text to measure perplexity on: window by window, or by span corruption for a model with an encoder',
    )
    .option('--limit <n>', 'use only the first lines of --data and --text')
    .option(
      '--max-new-tokens <n>',
      'tokens that the model generates after each line of data without labels',
      '4',
    )
    .option(
      '--routing-k <list>',
      'experts per token in predicted mode (default 1,3 where routers choose one; else k and 2k where they choose k)',
    )
    .option('--json', 'print JSON');
  return addFlags(command, OPTIONS).addHelpText('after', HELP).action(evaluateModel);
}

async function evaluateModel(model: string | undefined, values: Record<string, unknown>): Promise<void> {
  const flags = { ...(model !== undefined && { model }), ...givenFlags(values) };
  const options = resolveOptions(OPTIONS, { flags, env: process.env });
  const directory = resolve(options.model);
  // Errors in the options show before a conversion that may take minutes.
  const request = requestOf(values, readTasks(directory));
  const lines = request.data && (await readLabelled({ ...request.data, ...limitOf(request) }));
  const texts = request.text === undefined ? undefined : await readTextLines(request.text, request.limit);
  const progress = new Progress();
  const onProgress = (done: number, total: number) => progress.show({ phase: 'evaluate', done, total });
  const closing: (() => void)[] = [];
  try {
    const prepared = await preparePack({
      model: directory,
      packDir: options.packDir,
      ...weightChoices(options),
      onProgress: progress.show.bind(progress),
      onLine: progress.say.bind(progress),
    });
    const ks = ksOf(prepared, request);
    const engine = engineOf(prepared, options, request, Math.max(...ks));
    closing.push(() => engine.close());
    const { functions, warnings, path } = await openFunctions(prepared, engine, options);
    for (const { function: hash } of functions) closing.push(() => hash.close());
    for (const warning of warnings) warnLines(`sida: ${warning}`);
    const { maxBatchTokens } = options;
    const tokenizer = requireTokenizer(prepared, engine);
    const limits = { shape: engine.shape, tokenizer, maxBatchTokens };
    const report: EvaluationReport = {
      model: { name: prepared.name, fingerprint: prepared.fingerprint },
      predictor: { directory: path, hashFunction: functions[0].name, warnings },
      sources: [],
    };
    for (const { file, kind, source } of sourcesOf(request, lines, texts, limits)) {
      const measured = evaluate(source, { engine, functions, ks, onProgress });
      report.sources.push({ file, kind, ...measured });
      progress.stop();
    }
    if (values.json === true) printJson(report);
    else printLines(...describeEvaluation(report));
  } finally {
    progress.stop();
    for (const close of closing.reverse()) close();
  }
}

function limitOf({ limit }: EvalRequest): { limit?: number } {
  return limit === undefined ? {} : { limit };
}

/** The numbers of experts per token to measure predicted mode with: the request's, or else by the model's own k. */
function ksOf({ pack, formats }: PreparedPack, { ks: asked }: EvalRequest): number[] {
  const { shape } = loadAddon().describePack({ config: pack, ...formats });
  const { topK } = shape;
  const most = tableK(shape);
  const ks = asked ?? (topK === 1 ? [1, Math.min(3, most)] : [topK, most]);
  if (Math.max(...ks) <= most) return ks;
  throw new UsageError(
    `Expected --routing-k to be at most ${most}, the experts that a table of this model names for a token, found ${Math.max(...ks)}`,
  );
}

function engineOf(
  { pack, formats }: PreparedPack,
  options: Options,
  { data, maxNewTokens }: EvalRequest,
  maxRoutingK: number,
): Engine {
  const { memoryBudget, hostBudget, maxBatchTokens, kv, threads, device } = options;
  // The last KV page of the input and of each label or continuation may be almost empty.
  const sequences = (data?.labels?.length ?? 1) + 2;
  return openEngine({
    pack,
    memoryBudget,
    hostBudget,
    maxBatchTokens,
    threads,
    kvTokens: 2 * maxBatchTokens + maxNewTokens + sequences * loadAddon().kvPageTokens,
    kv,
    kvWindows: sequences,
    kvStates: sequences,
    activations: activationsOf(options, formats),
    device,
    maxRoutingK,
  });
}

interface Opened {
  functions: [MeasuredFunction, ...MeasuredFunction[]];
  warnings: string[];
  path: string;
}

/** Opens the chosen hash function, and the others that the predictor holds, for comparison. */
async function openFunctions(
  { pack, identity }: PreparedPack,
  { shape: model }: Engine,
  options: Options,
): Promise<Opened> {
  const addon = loadAddon();
  const choice = predictorChoice({ ...options, model: resolve(options.model) });
  if (choice === null) {
    const message =
      options.predictor === 'none'
        ? 'There is no predictor to evaluate: --predictor is none'
        : `${options.model} has no predictor of its own: name a directory of \`sida train\` with --predictor`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  const path = resolve(choice.directory);
  const open = async (kind?: HashFunctionName) => {
    const opened = await openPredictor(path, {
      model,
      weights: identity.weights,
      addon,
      embedding: () => new addon.TokenEmbedding({ pack }),
      ...(kind && { kind }),
      threads: options.threads,
    });
    const { function: hash, warnings } = opened;
    return { own: { name: hash.name, function: hash }, warnings };
  };
  const { own, warnings } = await open(choice.kind);
  const functions: Opened['functions'] = [own];
  for (const kind of await trainedFunctions(path)) {
    if (kind !== own.name) functions.push((await open(kind)).own);
  }
  return { functions, warnings, path };
}

/** The trained functions in a predictor's directory. */
async function trainedFunctions(path: string): Promise<HashFunctionName[]> {
  const networks = isPresent(path, MANIFEST) ? networksOf(await readPredictorManifest(path)) : [];
  return [...networks, ...(isPresent(path, TOKEN_TABLE) ? (['token'] as const) : [])];
}

interface NamedSource {
  file: string;
  kind: EvaluationReport['sources'][number]['kind'];
  source: EvaluationSource;
}

function sourcesOf(
  { data, text, maxNewTokens }: EvalRequest,
  lines: readonly DataLine[] | undefined,
  texts: readonly string[] | undefined,
  limits: SourceLimits,
): NamedSource[] {
  const sources: NamedSource[] = [];
  const { file, labels } = data ?? { file: '' };
  if (lines !== undefined) {
    const work = labels === undefined ? { maxNewTokens } : { labels };
    const kind = labels === undefined ? 'continuations' : 'labels';
    sources.push({ file, kind, source: dataSource(file, lines, work, limits) });
  }
  if (text !== undefined && texts !== undefined) {
    sources.push({ file: text, ...textSource(text, texts, limits) });
  } else if (lines !== undefined && labels === undefined && !embedsOnly(limits.shape)) {
    const own = lines.map((line) => line.text);
    sources.push({ file, ...textSource(file, own, limits) });
  }
  return sources;
}
