/** Finds the models in a folder of models. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { MANIFEST } from '../checkpoint/manifest.js';
import { isPresent } from '../files/model-file.js';

/** The parts of a split GGUF file after its first. */
const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/;

const isModel = (path: string) => isPresent(path, 'config.json') || isPresent(path, MANIFEST);

/** The paths of the models in a folder, by name. Undefined for a model, a file, and what is not there. */
export function modelsInFolder(path: string): string[] | undefined {
  if (isModel(path)) return undefined;
  let names: string[];
  try {
    names = readdirSync(path).sort();
  } catch {
    return undefined;
  }
  const files = names.filter((name) => name.endsWith('.gguf') && !LATER_PART.test(name));
  const folders = names.filter((name) => isModel(join(path, name)));
  const models = [...files, ...folders].map((name) => join(path, name));
  return models.length > 0 ? models : undefined;
}
