// Packs of random weights straight from a config, and runs over them within two budgets.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { REPOSITORY } from '../../src/support/paths.js';

const root = mkdtempSync(join(tmpdir(), 'sida-random-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const SCRIPTS = join(REPOSITORY, 'bench/scripts');

/** No size is a multiple of a panel's columns or of a group's inputs. */
const CONFIG = {
  model_type: 'qwen3_moe',
  ...{ vocab_size: 100, hidden_size: 44, num_hidden_layers: 2, max_position_embeddings: 512 },
  ...{ num_attention_heads: 3, num_key_value_heads: 1, head_dim: 10 },
  ...{ num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 38, intermediate_size: 96 },
};

function node(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: REPOSITORY, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  return stdout;
}

it.each(['f32', 'bf16', 'bf16c', 'int8', 'int4', 'mxfp4'])(
  'a pack of %s experts answers alike at two budgets',
  (type) => {
    const [config, pack] = [join(root, 'config.json'), join(root, type)];
    writeFileSync(config, JSON.stringify(CONFIG));
    node(join(SCRIPTS, 'make-random-pack.mjs'), '--config', config, '--out', pack, '--experts', type);
    const output = node(
      ...[join(SCRIPTS, 'decoder-budgets.mjs'), '--pack', pack, '--budgets', '1%,100%'],
      ...['--tokenizer', join(REPOSITORY, 'models/switch-mini/tokenizer.json')],
      ...['--text', join(REPOSITORY, 'README.md')],
      ...['--prompt', '24', '--steps', '8', '--warm', '2', '--chunk', '16', '--threads', '1'],
    );
    expect(output).toContain('1%: 1 of 16 slots');
    expect(output).toContain('All logits are those of 100%, bit for bit.');
  },
);
