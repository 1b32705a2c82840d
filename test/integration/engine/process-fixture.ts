import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Gives a model's tokenizer a token id outside the embedding. */
export function otherTokenizer(directory: string): void {
  const path = join(directory, 'tokenizer.json');
  const json = JSON.parse(readFileSync(path, 'utf8')) as { added_tokens: { id: number }[] };
  json.added_tokens.at(-1)!.id = 9000;
  writeFileSync(path, JSON.stringify(json));
}

/** Whether the process runs. A zombie, which has exited and not been reaped, does not count as running. */
export function alive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
