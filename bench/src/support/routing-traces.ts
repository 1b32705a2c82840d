/** Routing traces for scripts that replay them: recorded ones, and our own model's. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { BUNDLED_SST2, MODELS_DIRECTORY } from './paths.js';
import { sida } from './processes.js';
import { words } from './script.js';

/** The CSV files of a directory by name; says so where there are none. */
export function recordedTraces(directory: string | undefined): { name: string; file: string }[] {
  const files = directory !== undefined && existsSync(directory) ? readdirSync(directory) : [];
  const recorded = files.filter((file) => /\.csv(\.gz)?$/.test(file)).sort();
  if (recorded.length === 0) {
    console.error(`SKIPPED: the recorded traces; ${directory ?? '--traces'} holds no CSV files`);
  }
  return recorded.map((file) => ({ name: file.replace(/\.csv(\.gz)?$/, ''), file: join(directory!, file) }));
}

/** What the routing of a bundled model is recorded on. */
const TRACED = {
  'switch-mini': { data: BUNDLED_SST2, template: 'sst2 sentence: {text}' },
  'switch-words': {
    data: `${MODELS_DIRECTORY}/switch-words/words/known-held-out.jsonl`,
    template: 'category of: {text}',
  },
  'olmoe-mini': { data: BUNDLED_SST2, template: '{text}' },
};

/** Directory of a bundled model's routing of SST-2's validation set, or of held-out nouns, made in `folder`. */
export async function tracedModel(name: keyof typeof TRACED, folder: string): Promise<string> {
  const [out, packs] = [join(folder, `trace-${name}`), join(folder, 'packs')];
  const { data, template } = TRACED[name];
  const given = words`--data ${data} --template ${template} --max-new-tokens 1 --out ${out} --pack-dir ${packs}`;
  await sida(['trace', join(MODELS_DIRECTORY, name), ...given], { showErrors: true });
  return out;
}
