/** Names of models on a hub: `ORG/NAME`, and for one of its GGUF files `ORG/NAME:FILE` or `ORG/NAME:QUANT`. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';

export interface HubName {
  /** `ORG/NAME`. */
  repo: string;
  /** A GGUF file, or the end of its name that tells its quantization, such as Q4_K_M. */
  choice: string | undefined;
}

const NAME = /^(?:hf:)?(\w(?:[\w.-]*\w)?\/\w(?:[\w.-]*\w)?)(?::([^:]+))?$/;

/** Undefined for a text that is no name of a model. */
export function parseHubName(text: string): HubName | undefined {
  const match = NAME.exec(text);
  // `--` separates the parts of a name in the cache.
  if (match === null || /--|\.\./.test(match[1]!)) return undefined;
  return { repo: match[1]!, choice: match[2] };
}

/**
 * The name on the hub that `model` stands for. Undefined for a path, which is one that is there, or whose directory is
 * there.
 */
export function hubNameOf(model: string): HubName | undefined {
  const isPath = !model.startsWith('hf:') && (existsSync(model) || existsSync(dirname(model)));
  return isPath ? undefined : parseHubName(model);
}

export function writtenName({ repo, choice }: HubName): string {
  return choice === undefined ? repo : `${repo}:${choice}`;
}
