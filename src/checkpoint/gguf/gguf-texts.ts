/** The texts of a model that is a GGUF file: those that its metadata gives, and the tasks beside it. */
import { basename, dirname } from 'node:path';
import type { GgufInfo } from '../../native/addon-types.js';
import { checkTextSize, readText, type TextName, type Texts } from '../texts.js';
import { Metadata } from './metadata.js';
import { tokenizerTexts } from './tokenizer-texts.js';

/** `path` is that of the file. All GGUF files of a directory share its sida.json. Throws checkpoint_invalid. */
export function ggufTexts(path: string, metadata: GgufInfo['metadata']): Texts {
  const texts: Map<TextName, Buffer> = tokenizerTexts(new Metadata(metadata, basename(path)));
  for (const [name, bytes] of texts) checkTextSize(path, name, bytes.length);
  const tasks = readText(dirname(path), 'sida.json', 'checkpoint_invalid');
  if (tasks !== undefined) texts.set('sida.json', tasks);
  return texts;
}
