/** Tells what of a checkpoint is not served: vision towers, layers of multi-token prediction, adapters. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const ADAPTER = 'adapter_model.safetensors';
const MOST_PARTS = 8;
/** Buffers without weights. transformers computes them; the config has the factors of `rope_freqs`. */
const BUFFER = /^rope_freqs\.weight$|\.(?:inv_freq|position_ids)$/;

/** One line, or undefined where all of it is served. `others` are names of tensors that the model does not use. */
export function leftOut(model: string, others: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const name of others.filter((each) => !BUFFER.test(each))) {
    const part = partOf(name);
    counts.set(part, (counts.get(part) ?? 0) + 1);
  }
  const parts = [...counts].map(
    ([part, count]) => `${part} (${count} ${count === 1 ? 'tensor' : 'tensors'})`,
  );
  if (existsSync(join(model, ADAPTER))) parts.push(ADAPTER);
  if (parts.length === 0) return undefined;
  const more = parts.length > MOST_PARTS ? ` and ${parts.length - MOST_PARTS} more` : '';
  return `Not served: ${parts.slice(0, MOST_PARTS).join(', ')}${more}`;
}

/** `model.visual` of `model.visual.blocks.0.norm.weight`, and `model.layers.61` of `model.layers.61.eh_proj.weight`. */
function partOf(name: string): string {
  return /^(?:(?:model|blk)\.)?(?:(?:layers|blk)\.\d+|[^.]+)/.exec(name)?.[0] ?? name;
}
