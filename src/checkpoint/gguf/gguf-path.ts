/** Which models are GGUF files, and what a model is called. */
import { statSync } from 'node:fs';
import { basename } from 'node:path';

const SUFFIX = '.gguf';

/** Whether a model's path is that of a file, or is called like one. The addon decides by the same rule. */
export function isGgufPath(model: string): boolean {
  const status = statSync(model, { throwIfNoEntry: false });
  return status?.isDirectory() !== true && (status !== undefined || model.endsWith(SUFFIX));
}

/** A model in the cache of Hugging Face's tools lies in a directory that is named after a commit. */
const SNAPSHOT = /\/models--([^/]+)--([^/]+)\/snapshots\/[^/]+$/;

/**
 * `ORG/NAME` of a directory in the cache of Hugging Face's tools. Of others the last part of the path, without what a
 * GGUF file's name says of its form and its parts.
 */
export function modelName(model: string): string {
  const cached = SNAPSHOT.exec(model);
  return cached === null ? fileName(model) : `${cached[1]}/${cached[2]}`;
}

/** The last part of the model's name. */
export function fileName(model: string): string {
  return basename(SNAPSHOT.exec(model)?.[2] ?? model).replace(/(-\d{5}-of-\d{5})?\.gguf$/, '');
}
