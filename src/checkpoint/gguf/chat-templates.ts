/** The chat templates of a GGUF file. */
import type { Metadata } from './metadata.js';

const TEMPLATE = 'tokenizer.chat_template';

export interface ChatTemplates {
  default: string | undefined;
  /** The others, each with its name. */
  named: { name: string; template: string }[];
}

export function readChatTemplates(metadata: Metadata): ChatTemplates {
  const names = metadata.keys.filter((key) => key.startsWith(`${TEMPLATE}.`)).sort();
  return {
    default: metadata.text(TEMPLATE),
    named: names.map((key) => ({ name: key.slice(TEMPLATE.length + 1), template: metadata.text(key)! })),
  };
}
