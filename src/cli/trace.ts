/** `sida trace`: records where a model's routers send the tokens of a data file. */

import { basename, resolve } from 'node:path';
import { Command } from 'commander';
import { formatName } from '../checkpoint/weight-format.js';
import { WEIGHT_OPTIONS, weightChoices } from '../config/engine-config.js';
import type { OptionName } from '../config/options.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { openModel } from '../engine/open-model.js';
import { SidaError } from '../errors.js';
import { printLines } from '../text/print.js';
import { readInputs } from '../trace/data-file.js';
import { writeEmbedding } from '../trace/embedding.js';
import { record } from '../trace/recorder.js';
import { type RecordedLine, routersOf, type TraceWork, TraceWriter } from '../trace/trace-file.js';
import type { TraceRecord } from '../trace/trace-record.js';
import { addFlags, givenFlags } from './flags.js';
import { number } from './lists.js';
import { Progress } from './progress.js';

const OPTIONS = [
  'memoryBudget',
  'hostBudget',
  'maxBatchTokens',
  'kv',
  'threads',
  ...WEIGHT_OPTIONS,
  'activations',
  'device',
  'packDir',
] as const;
/** Records per write. An interruption loses at most this many. */
const CHUNK = 64;

export function traceCommand(): Command {
  const command = new Command('trace')
    .argument('<model>', 'Hugging Face checkpoint or packed model')
    .requiredOption('--data <file>', 'JSON lines')
    .requiredOption(
      '--template <text>',
      "input made of a line, with its fields in braces: 'category of: {text}'",
    )
    .option(
      '--join <field=file>',
      'replace the key in this field by the `text` of the row with the same key in another file of JSON lines; repeatable',
      (join: string, joins: string[] = []) => [...joins, join],
    )
    .requiredOption('--out <dir>', 'directory of the trace')
    .option(
      '--top <n>',
      'experts recorded for each token and layer; at least twice as many as the routers choose',
      '30',
    )
    .option(
      '--max-new-tokens <n>',
      'tokens that the model generates after each line, and that are recorded',
      '4',
    )
    .addHelpText(
      'after',
      '\nStart an interrupted run again, and it continues after its last whole record.\n' +
        "\nExamples:\n  sida trace models/switch-words --data models/switch-words/words/known.jsonl --template 'category of: {text}' --out traces/words" +
        "\n  sida trace MODEL --data multirc/train.jsonl --join passage=multirc/train.passages.jsonl --template 'multirc question: {question} answer: {answer} paragraph: {passage}' --out traces/multirc",
    )
    .action(trace);
  return addFlags(command, OPTIONS as unknown as OptionName[]);
}

/** Parses values such as `passage=train.passages.jsonl` into a file for each field. Throws UsageError. */
export function parseJoins(joins: readonly string[] = []): Record<string, string> {
  return Object.fromEntries(
    joins.map((join) => {
      const at = join.indexOf('=');
      if (at > 0 && at < join.length - 1) return [join.slice(0, at), join.slice(at + 1)];
      throw new UsageError(
        `Expected --join to be <field>=<file>, found ${JSON.stringify(join)}; for example passage=train.passages.jsonl`,
      );
    }),
  );
}

/** Throws cannot_run when the last recorded line differs from that line of the data, because the file has changed. */
function checkSame(
  last: RecordedLine | undefined,
  texts: readonly string[],
  file: string,
  encode: (text: string) => number[],
): void {
  if (last === undefined) return;
  const { line, tokens } = last;
  const text = texts[line];
  if (text !== undefined && encode(text).join() === tokens.join()) return;
  const found = text === undefined ? `has ${texts.length} inputs` : `has another line ${line + 1}`;
  throw new SidaError({
    code: 'cannot_run',
    message: `The trace holds ${line + 1} lines of other data: ${file} ${found}; name another --out or remove it`,
  });
}

async function trace(model: string, values: Record<string, unknown>): Promise<void> {
  const options = resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env });
  const file = String(values.data);
  const template = String(values.template);
  const maxNewTokens = number('max-new-tokens', String(values.maxNewTokens), 0, 1024);
  const joins = parseJoins(values.join as string[] | undefined);
  const texts = await readInputs({ file, template, joins });
  const progress = new Progress();
  try {
    const { pack, name, identity, formats, engine, tokenizer } = await openModel({
      model: resolve(model),
      packDir: options.packDir,
      ...weightChoices(options),
      onProgress: progress.show.bind(progress),
      onLine: progress.say.bind(progress),
      memoryBudget: options.memoryBudget,
      hostBudget: options.hostBudget,
      maxBatchTokens: options.maxBatchTokens,
      threads: options.threads,
      activations: options.activations,
      kv: options.kv,
      device: options.device,
      newTokens: maxNewTokens,
      sequences: 1,
    });
    const top = Math.max(2 * engine.shape.topK, number('top', String(values.top), 1, 65_535));
    const out = resolve(String(values.out));
    const work: TraceWork = {
      format: 'sida-trace',
      version: 1,
      model: {
        name,
        weights: identity.weights,
        tokenizer: identity.tokenizer!,
        experts: formatName(formats.experts),
        dense: formatName(formats.dense),
      },
      ...routersOf(engine.shape, top),
      data: basename(file),
      template,
      maxNewTokens,
      ...(Object.keys(joins).length > 0 && {
        joins: Object.fromEntries(Object.entries(joins).map(([field, other]) => [field, basename(other)])),
      }),
    };
    const writer = await TraceWriter.open(out, work);
    const { shape } = writer;
    try {
      checkSame(writer.last, texts, file, (text) => tokenizer.encode(text));
      await writeEmbedding(pack, out);
      for (let line = writer.nextLine; line < texts.length; ) {
        const records: TraceRecord[] = [];
        for (; records.length < CHUNK && line < texts.length; line++) {
          const tokens = Int32Array.from(tokenizer.encode(texts[line]!));
          if (tokens.length > options.maxBatchTokens) {
            const message = `${file}, line ${line + 1} has ${tokens.length} tokens, the limit is ${options.maxBatchTokens}; raise --max-batch-tokens and start it again to go on from here`;
            throw new SidaError({ code: 'cannot_run', message });
          }
          records.push(record(engine, { line, tokens }, shape, maxNewTokens));
        }
        await writer.append(records);
        progress.show({ phase: 'trace', done: line, total: texts.length });
      }
      await writer.finish();
    } finally {
      await writer.close();
      engine.close();
    }
    progress.stop();
    printLines(`${out} (${texts.length} lines)`);
  } finally {
    progress.stop();
  }
}
