/** `sida pull`: downloads a model into the cache that Hugging Face's tools share. */
import { Command } from 'commander';
import { UsageError } from '../config/resolve.js';
import { type HubName, parseHubName, writtenName } from '../hub/hub-name.js';
import { printLines } from '../text/print.js';
import { pullModel } from './hub-models.js';

export function pullCommand(): Command {
  return new Command('pull')
    .argument('<name>', 'ORG/NAME, or ORG/NAME:FILE or ORG/NAME:QUANT for one of its GGUF files')
    .addHelpText(
      'after',
      '\nIt downloads only what sida reads, and compares it with its checksums. The models lie in the cache of Hugging\n' +
        "Face's tools: HF_HUB_CACHE, by default ~/.cache/huggingface/hub. HF_TOKEN is for models that are not public.\n" +
        'HF_ENDPOINT names another hub.\n' +
        '\nExamples:\n  sida pull allenai/OLMoE-1B-7B-0924-Instruct\n  sida pull Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M',
    )
    .action(async (text: string) => {
      const name = requireHubName(text);
      const path = await pullModel(name);
      printLines(`${writtenName(name)} is in ${path}`, `Serve it: sida serve ${writtenName(name)}`);
    });
}

/** Throws UsageError for a text that is no name of a model. */
export function requireHubName(text: string): HubName {
  const name = parseHubName(text);
  if (name !== undefined) return name;
  throw new UsageError(
    `Expected the name of a model as ORG/NAME, such as Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M, but got ${JSON.stringify(text)}`,
  );
}
