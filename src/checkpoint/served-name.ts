/** The name under which a model is served, before it is open: that of its path, or the one that its pack holds. */
import { resolve } from 'node:path';
import { z } from 'zod';
import { modelName } from './gguf/gguf-path.js';
import { isPack, manifestParts } from './manifest.js';

const sourceSchema = z.object({ source: z.object({ name: z.string() }) });

/** `elsewhere` means that workers hold the model, so there may be nothing under its path here. */
export function servedName(model: string, elsewhere: boolean): string {
  const path = resolve(model);
  if (elsewhere || !isPack(path)) return modelName(path);
  return manifestParts(path, sourceSchema)!.source.name;
}
