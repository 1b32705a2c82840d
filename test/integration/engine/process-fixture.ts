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

/** Reads `<case>.input_ids` (int64) of a safetensors file as rows of `length` ids. */
export function readInputIds(path: string): (name: string, length: number) => number[][] {
  const file = readFileSync(path);
  const headerEnd = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, headerEnd)) as Record<
    string,
    { data_offsets: [number, number] }
  >;
  return (name, length) => {
    const [begin, end] = header[`${name}.input_ids`]!.data_offsets;
    const ids: number[] = [];
    for (let at = begin; at < end; at += 8) ids.push(Number(file.readBigInt64LE(headerEnd + at)));
    return Array.from({ length: ids.length / length }, (_, row) =>
      ids.slice(row * length, (row + 1) * length),
    );
  };
}
