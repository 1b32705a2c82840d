// The padded model and the true routing of what will be asked, both made once in a folder of work.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readTrace } from '../../../dist/trace/trace-file.js';
import { SCRIPTS } from '../../dist/support/paths.js';
import { run, sida } from '../../dist/support/processes.js';

const MODEL = 'models/olmoe-mini';
export const PREDICTOR = `${MODEL}/predictor`;
/** The bundled model's form of a conversation, with the longer of its two questions: its answers are definitions. */
const TEMPLATE = '<|user|>What does {text} mean?<|end|><|assistant|>';

/** The pack of the bundled model with experts of `ff` columns in int4, and the bytes of one. */
export async function padded(work, ff) {
  const pack = join(work, `olmoe-mini-${ff}.pack`);
  const manifest = join(pack, 'manifest.json');
  if (!existsSync(manifest)) await makePadded(work, ff, pack);
  return { pack, expertBytes: JSON.parse(readFileSync(manifest, 'utf8')).experts.block_bytes };
}

async function makePadded(work, ff, pack) {
  const checkpoint = join(work, `olmoe-mini-${ff}`);
  for (const directory of [checkpoint, pack]) rmSync(directory, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const script = `${SCRIPTS}padded/pad-experts.mjs`;
  await run(process.execPath, [script, '--model', MODEL, '--out', checkpoint, '--ff', String(ff)]);
  await sida(['convert', checkpoint, '--out', pack, '--experts', 'int4'], { showErrors: true });
  rmSync(checkpoint, { recursive: true });
}

/**
 * Runs the question about each word with every expert in memory. Returns the trace's directory and its records, in the
 * order of the words: the prompt, the tokens that the model read after it, and where the routers sent both.
 */
export async function traced(work, pack, words, tokens) {
  const trace = join(work, 'trace');
  const data = `${trace}.jsonl`;
  // One of other words or of another length would be refused, and this one is made in half a minute.
  rmSync(trace, { recursive: true, force: true });
  writeFileSync(data, words.map((text) => `${JSON.stringify({ text })}\n`).join(''));
  const args = ['trace', pack, '--data', data, '--template', TEMPLATE, '--out', trace, '--top', '8'];
  await sida([...args, '--max-new-tokens', String(tokens), '--memory-budget', '100%'], { showErrors: true });
  const records = [];
  for await (const { input, stacks } of readTrace(trace)) {
    const [{ tokens: read, experts }] = stacks;
    records.push({ prompt: [...read.subarray(0, input)], answer: [...read.subarray(input)], experts });
  }
  return { trace, records };
}
