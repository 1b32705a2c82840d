// `sida plan` of a GGUF file whose layers have different types, as mixed quantizations have them.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GgufType, writeGguf, type ZeroTensor } from '../../support/gguf-writer.js';

const REPO = join(import.meta.dirname, '..', '..', '..');
const folder = mkdtempSync(join(tmpdir(), 'sida-plan-'));
afterAll(() => rmSync(folder, { recursive: true }));

const WIDTH = 64;
const EXPERTS = 4;
const TYPES: GgufType[] = ['Q8_0', 'Q4_0', 'Q4_0'];

beforeAll(() => {
  const row = (name: string): ZeroTensor => ({ name, type: 'F32', dimensions: [WIDTH] });
  const matrix = (name: string, type: GgufType, ...more: number[]): ZeroTensor => ({
    name,
    type,
    dimensions: [WIDTH, ...more],
  });
  const layer = (type: GgufType, i: number) => [
    ...['attn_norm', 'ffn_norm', 'attn_q_norm', 'attn_k_norm'].map((name) => row(`blk.${i}.${name}.weight`)),
    ...['attn_q', 'attn_k', 'attn_v', 'attn_output'].map((name) =>
      matrix(`blk.${i}.${name}.weight`, 'F32', WIDTH),
    ),
    matrix(`blk.${i}.ffn_gate_inp.weight`, 'F32', EXPERTS),
    ...['ffn_gate_exps', 'ffn_up_exps', 'ffn_down_exps'].map((name) =>
      matrix(`blk.${i}.${name}.weight`, type, WIDTH, EXPERTS),
    ),
  ];
  writeGguf(
    join(folder, 'mixed.gguf'),
    {
      'general.architecture': 'olmoe',
      'olmoe.block_count': TYPES.length,
      'olmoe.context_length': 64,
      'olmoe.embedding_length': WIDTH,
      'olmoe.feed_forward_length': WIDTH,
      'olmoe.attention.head_count': 4,
      'olmoe.attention.layer_norm_rms_epsilon': 1e-5,
      'olmoe.expert_count': EXPERTS,
      'olmoe.expert_used_count': 2,
      'tokenizer.ggml.eos_token_id': 2,
    },
    [
      matrix('token_embd.weight', 'F32', 64),
      matrix('output.weight', 'F32', 64),
      row('output_norm.weight'),
      ...TYPES.flatMap(layer),
    ],
  );
});

const plan = (...args: string[]) =>
  execFileSync(process.execPath, [join(REPO, 'bundle/cli/main.js'), 'plan', ...args], { encoding: 'utf8' });

describe('sida plan of mixed types', () => {
  const file = join(folder, 'mixed.gguf');

  it('counts the experts of each layer with their own bytes, equal layers in one line, and a slot as the largest', () => {
    const { plan: found, layers } = JSON.parse(plan(file, '--json'));
    const [large, small] = found.blockBytes;
    expect([large > small, found.blockBytes]).toEqual([true, [large, small, small]]);
    const table = plan(file);
    const bytesOf = (name: string) =>
      Number(new RegExp(`^${name} +[\\d.]+ \\w+ +(\\d+)`, 'm').exec(table)![1]);
    expect(layers).toEqual(['decoder.0', 'decoder.1', 'decoder.2']);
    expect(bytesOf('experts decoder.0')).toBe(EXPERTS * large);
    expect(bytesOf('experts decoder.1 to decoder.2')).toBe(2 * EXPERTS * small);
    expect(table).toMatch(/^experts decoder\.1 to decoder\.2 .* 2 layers of 4 experts$/m);
    expect(table.match(/^experts /gm)).toHaveLength(2);
    expect(bytesOf('one slot')).toBe(found.slot);
    expect(found.slot).toBeGreaterThanOrEqual(large);
    expect(bytesOf('resident')).toBe(found.fixed + TYPES.length * EXPERTS * found.slot);
  });

  it('sums the bytes of all layers', () => {
    expect(plan(file)).toMatch(/^--experts auto +16\.0 KiB +128 KiB /m);
  });
});
