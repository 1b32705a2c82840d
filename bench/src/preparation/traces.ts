/** Traces that tables, predictors and static choices are made from. A trace in the work directory is used again. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readMeta } from '../../../dist/trace/trace-file.js';
import { MAX_BATCH_TOKENS } from '../scenarios/models.js';
import { LABEL_TRACE_PROCESS } from '../support/paths.js';
import { run, sida } from '../support/processes.js';
import { words } from '../support/script.js';
import type { BenchInputs } from './inputs.js';
import type { LabelTraceWork } from './label-trace.js';
import { type Maker, type PreparedModel, shortHash } from './prepare.js';

/** Where the routers send the texts, and the first token that the model generates. Returns the trace's directory. */
export function textTraceOf(
  { pack, fingerprint }: PreparedModel,
  { name, template }: Pick<BenchInputs, 'name' | 'template'>,
  texts: readonly string[],
  maker: Maker,
): Promise<string> {
  const { threads, device, signal, onStep } = maker;
  const key = [fingerprint, template, ...(device === undefined ? [] : [device]), ...texts];
  return keptTrace(`${name}-${shortHash(...key)}`, maker, async (directory) => {
    const file = `${directory}.jsonl`;
    writeFileSync(file, texts.map((text) => JSON.stringify({ text })).join('\n'));
    onStep(`tracing ${texts.length} inputs of ${name}`);
    // As the engines of measurements run, so that tables hold their true routing.
    const engine = words`--memory-budget 100% --threads ${threads} --device ${device ?? 'cpu'} --activations f32 --kv f32`;
    const args = words`trace ${pack} --data ${file} --template {text} --out ${directory} --max-new-tokens 1`;
    await sida([...args, '--max-batch-tokens', String(MAX_BATCH_TOKENS), ...engine], { signal });
  });
}

/** Where the routers send the texts and all tokens of their labels. Returns the trace's directory. */
export function labelTraceOf(
  prepared: PreparedModel,
  { name, labels }: Pick<BenchInputs, 'name' | 'labels'>,
  texts: readonly string[],
  maker: Maker,
): Promise<string> {
  const { threads, device = 'cpu', signal, onStep } = maker;
  const key = shortHash(prepared.fingerprint, prepared.weights, device, ...labels, ...texts);
  return keptTrace(`${name}-labels-${key}`, maker, async (out) => {
    onStep(`tracing ${texts.length} inputs of ${name} with their labels`);
    const sizes = { threads: String(threads), maxBatchTokens: String(MAX_BATCH_TOKENS) };
    const flags = { model: prepared.pack, memoryBudget: '100%', ...sizes, device };
    const work: LabelTraceWork = { ...prepared, flags, texts, labels, out };
    await run(process.execPath, [LABEL_TRACE_PROCESS], { input: JSON.stringify(work), signal });
  });
}

async function keptTrace(name: string, { work }: Maker, make: (directory: string) => Promise<void>): Promise<string> {
  const directory = join(work, 'traces', name);
  if (existsSync(join(directory, 'trace.json')) && (await readMeta(directory)).complete) return directory;
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(join(work, 'traces'), { recursive: true });
  await make(directory);
  return directory;
}
