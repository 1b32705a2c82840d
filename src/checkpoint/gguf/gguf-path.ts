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
const SNAPSHOT = /\/models--[^/]+--([^/]+)\/snapshots\/[^/]+$/;

/** The last part of a model's path or name, without what a GGUF file's name says of its form and its parts. */
export function modelName(model: string): string {
  return (SNAPSHOT.exec(model)?.[1] ?? basename(model)).replace(/(-\d{5}-of-\d{5})?\.gguf$/, '');
}
