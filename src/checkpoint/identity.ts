/** What decides a model's answers, in parts. Packs, queues, predictors and traces compare the parts they depend on. */
import type { PackFile } from './manifest.js';
import { sha256Of, type TextName } from './texts.js';

/** Each part is a sha256 of content, the same on every machine, or null where the model has no such file. */
export interface ModelIdentity {
  /** The checkpoint's config.json and weight files, whatever element types they are packed in. */
  weights: string;
  /** tokenizer.json */
  tokenizer: string | null;
  /** sida.json */
  tasks: string | null;
  /** chat_template.jinja and tokenizer_config.json */
  chatTemplate: string | null;
  /** generation_config.json */
  generation: string | null;
}

type TextPart = Exclude<keyof ModelIdentity, 'weights'>;

const FILES_OF: Record<TextPart, TextName[]> = {
  tokenizer: ['tokenizer.json'],
  tasks: ['sida.json'],
  chatTemplate: ['chat_template.jinja', 'tokenizer_config.json'],
  generation: ['generation_config.json'],
};

/** The parts as messages name them. */
const PART_NAMES: Record<keyof ModelIdentity, string> = {
  weights: 'weights',
  tokenizer: 'tokenizer',
  tasks: 'tasks',
  chatTemplate: 'chat template',
  generation: 'generation_config.json',
};

type Hashed = Pick<PackFile, 'name' | 'sha256'>;

/** The identity of a checkpoint or pack with these files. `weights` is that of the checkpoint. */
export function modelIdentity(weights: string, files: readonly Hashed[]): ModelIdentity {
  const part = (name: TextPart): string | null => {
    const own = files.filter((file) => (FILES_OF[name] as string[]).includes(file.name));
    if (own.length === 0) return null;
    // The hash of a single file is what sha256sum prints.
    return own.length === 1 ? own[0]!.sha256 : hashOfFiles(own);
  };
  return {
    weights,
    tokenizer: part('tokenizer'),
    tasks: part('tasks'),
    chatTemplate: part('chatTemplate'),
    generation: part('generation'),
  };
}

/** Names of the parts in which two models differ. */
export function differingParts(a: ModelIdentity, b: ModelIdentity): string[] {
  const parts = Object.keys(PART_NAMES) as (keyof ModelIdentity)[];
  return parts.filter((part) => a[part] !== b[part]).map((part) => PART_NAMES[part]);
}

/** Hashes names and contents of files, whatever their order. Of all files of a pack, it is the fingerprint. */
export function hashOfFiles(files: readonly Hashed[]): string {
  const sorted = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  return sha256Of(sorted.map(({ name, sha256 }) => `${name} ${sha256}\n`).join(''));
}
