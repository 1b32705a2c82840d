/** Chooses the files of a repository that sida reads. */
import { basename } from 'node:path';
import { indexOf, WEIGHTS } from '../checkpoint/config-plan.js';
import { TEXT_NAMES } from '../checkpoint/texts.js';
import { SidaError } from '../errors.js';
import { formatBytes } from '../text/bytes.js';
import { type HubName, writtenName } from './hub-name.js';

export interface RepoFile {
  /** Path in the repository. */
  path: string;
  size: number;
}

export interface ModelFiles<F extends RepoFile = RepoFile> {
  format: keyof typeof WEIGHTS | 'gguf';
  files: F[];
  /** What the engine opens, relative to the repository: a GGUF file, or `.` for a checkpoint. */
  entry: string;
  /** What a name says after its colon to choose these files. Undefined for a checkpoint. */
  choice: string | undefined;
}

const PART = /-(\d{5})-of-(\d{5})\.gguf$/;
/** The end of a GGUF file's name that tells its quantization. */
const QUANT = /[-._]((?:UD-)?(?:I?Q\d|TQ\d|BF16|F16|F32|MXFP4)\w*)\.gguf$/i;

/**
 * The files of the model `name` among those of its repository. Throws model_not_found when there are none, and
 * invalid_request when the name leaves a choice.
 */
export function chooseFiles<F extends RepoFile>(name: HubName, files: readonly F[]): ModelFiles<F> {
  const refuse = (fault: string) =>
    new SidaError({ code: 'model_not_found', message: `${writtenName(name)}: ${fault}` });
  const checkpoint = checkpointFiles(files);
  if (name.choice === undefined && checkpoint !== undefined) return checkpoint;
  const all = ggufModels(files);
  if (all.length === 0) {
    throw refuse('its repository has neither safetensors, pytorch_model.bin nor complete GGUF files');
  }
  const found = name.choice === undefined ? all : all.filter((model) => isChosen(model, name.choice!));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  const choices = (found.length === 0 ? all : found).map(
    (model) => `  ${name.repo}:${model.choice}  ${formatBytes(sizeOf(model))}`,
  );
  if (only === undefined) throw refuse(`no such GGUF file; there are\n${choices.join('\n')}`);
  throw new SidaError({
    code: 'invalid_request',
    message: `${writtenName(name)} has several GGUF files; name one of\n${choices.join('\n')}`,
  });
}

/** The models of a repository: its checkpoint, and each of its GGUF files. Those with missing parts are left out. */
export function modelsAmong<F extends RepoFile>(files: readonly F[]): ModelFiles<F>[] {
  const checkpoint = checkpointFiles(files);
  return [...(checkpoint === undefined ? [] : [checkpoint]), ...ggufModels(files)];
}

export function sizeOf({ files }: ModelFiles): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

/** The texts of a checkpoint, without weights. */
export function textFiles<F extends RepoFile>(files: readonly F[]): F[] {
  return files.filter(({ path }) => (TEXT_NAMES as string[]).includes(path));
}

function checkpointFiles<F extends RepoFile>(files: readonly F[]): ModelFiles<F> | undefined {
  const texts = textFiles(files);
  if (!texts.some(({ path }) => path === 'config.json')) return undefined;
  // In the order in which the engine prefers them.
  for (const format of ['safetensors', 'pytorch'] as const) {
    const file = WEIGHTS[format];
    const single = files.filter(({ path }) => path === file);
    const shards = files.filter(
      ({ path }) => path === indexOf(file) || path.replace(/-\d{5}-of-\d{5}(?=\.\w+$)/, '') === file,
    );
    const weights = single.length > 0 ? single : shards;
    if (weights.length > 0) {
      return { format, files: [...texts, ...weights], entry: '.', choice: undefined };
    }
  }
  return undefined;
}

function ggufModels<F extends RepoFile>(files: readonly F[]): ModelFiles<F>[] {
  const groups = new Map<string, F[]>();
  for (const file of files) {
    // A projector for images is no model.
    if (!file.path.endsWith('.gguf') || basename(file.path).startsWith('mmproj')) continue;
    const whole = file.path.replace(PART, '.gguf');
    groups.set(whole, [...(groups.get(whole) ?? []), file]);
  }
  return [...groups].flatMap(([whole, parts]) => {
    parts.sort((a, b) => (a.path < b.path ? -1 : 1));
    const entry = parts[0]!.path;
    if (parts.length !== Number(PART.exec(entry)?.[2] ?? 1)) return [];
    const choice = QUANT.exec(whole)?.[1] ?? whole;
    return [{ format: 'gguf' as const, files: parts, entry, choice }];
  });
}

function isChosen({ files }: ModelFiles, choice: string): boolean {
  if (choice.endsWith('.gguf')) {
    const whole = choice.replace(PART, '.gguf');
    return [files[0]!.path, basename(files[0]!.path)].some((path) => path.replace(PART, '.gguf') === whole);
  }
  const name = files[0]!.path.replace(PART, '.gguf').toLowerCase();
  return ['-', '.', '_', '/'].some((before) => name.endsWith(`${before}${choice.toLowerCase()}.gguf`));
}
