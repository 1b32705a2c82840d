// Copies of models whose experts are filled with zeros: the same logits, bit for bit, from larger experts.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../../src/checkpoint/converter.js';
import { loadAddon } from '../../../src/native/addon.js';
import { type Activations, NO_PARENT, type PackFormats } from '../../../src/native/addon-types.js';
import { REPOSITORY } from '../../src/support/paths.js';

const root = mkdtempSync(join(tmpdir(), 'sida-padded-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string) => join(root, name);
const TINY = join(REPOSITORY, 'test/fixtures');
const addon = loadAddon();

function pad(model: string, name: string, ...size: string[]): string {
  const script = join(REPOSITORY, 'bench/scripts/pad-experts.mjs');
  const args = [script, '--model', model, '--out', at(name), ...size];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: REPOSITORY, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  return at(name);
}

const FORMATS = {
  bf16: { experts: { dtype: 'bf16' }, dense: { dtype: 'bf16' } },
  int4: { experts: { dtype: 'int4', group: 32 }, dense: { dtype: 'bf16' } },
} satisfies Record<string, PackFormats>;
const TOKENS = Int32Array.from({ length: 40 }, (_, i) => 3 + ((i * 37) % 500));
const LIMITS = { maxBatchTokens: 64, kvTokens: 128, threads: 1 };
let packs = 0;

/** The bits of the logits after each token, and the bytes of an expert's slot. */
async function logitsOf(model: string, formats: PackFormats, activations: Activations) {
  const { pack } = await convertCheckpoint({ model, out: at(`pack-${packs++}`), ...formats });
  const limits = { ...LIMITS, activations };
  const plan = addon.planMemory({ pack }, limits);
  const store = { budgetBytes: plan.smallest, hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };
  const engine = new addon.Engine({ pack, ...store, ...limits });
  const one = { offsets: Int32Array.of(0, TOKENS.length), tokens: TOKENS };
  const logitRows = Int32Array.from(TOKENS.keys());
  try {
    const decodes = engine.shape.stacks.length > 1;
    const first = { stack: 0, sequences: Int32Array.of(1), ...one };
    if (!decodes) return { slot: plan.slot, ...bits(engine.runBatch({ ...first, logitRows }, null)) };
    engine.runBatch({ ...first, parents: Int32Array.of(NO_PARENT) }, null);
    const second = { stack: 1, sequences: Int32Array.of(2), parents: Int32Array.of(1), ...one, logitRows };
    return { slot: plan.slot, ...bits(engine.runBatch(second, null)) };
  } finally {
    engine.close();
    rmSync(pack, { recursive: true });
  }
}

const bits = ({ logits }: { logits?: Float32Array }) => ({ logits: Buffer.from(logits!.slice().buffer) });

describe.each(['switch-tiny', 'olmoe-tiny'])('%s', (name) => {
  const model = join(TINY, name);
  // Whole panels and groups, and a width that is a multiple of nothing.
  const padded: string[] = [];
  beforeAll(() => {
    for (const ff of ['1024', '333']) padded.push(pad(model, `${name}-${ff}`, '--ff', ff));
  });

  it.each([
    ['bf16', 'f32'],
    ['bf16', 'bf16'],
    ['int4', 'f32'],
    ['int4', 'int8'],
  ] as const)('with experts of %s and activations of %s has the logits of the model', async (format, type) => {
    const plain = await logitsOf(model, FORMATS[format], type);
    for (const copy of padded) {
      const { logits, slot } = await logitsOf(copy, FORMATS[format], type);
      expect(logits.equals(plain.logits), copy).toBe(true);
      expect(slot).toBeGreaterThan(2 * plain.slot);
    }
  });
});
