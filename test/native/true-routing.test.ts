// What `sida trace` and `sida eval` take for the routers' choice is their choice: a pass that is routed by it gives the
// states of exact mode, whatever scores, groups, corrections and scales a family's routers have.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { trueRouting } from '../../src/evaluation/model-runner.js';
import { loadAddon } from '../../src/native/addon.js';
import type { Engine, NativeBatch } from '../../src/native/addon-types.js';
import { oracleFixture } from '../support/oracle-fixture.js';

const root = mkdtempSync(join(tmpdir(), 'sida-true-routing-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const LIMITS = { maxBatchTokens: 64, kvTokens: 256, threads: 1, maxRoutingK: 8, routers: true };
const TOKENS = Int32Array.from({ length: 60 }, (_, i) => 3 + ((i * 37) % 500));

async function open(model: string, name: string): Promise<Engine> {
  const addon = loadAddon();
  const { pack } = await convertCheckpoint({ model, out: join(root, name), experts: 'auto', dense: 'auto' });
  const budgetBytes = addon.planMemory({ pack }, LIMITS).resident;
  return new addon.Engine({
    pack,
    budgetBytes,
    hostBudgetBytes: 0,
    linkBandwidth: 0,
    linkLatency: 0,
    ...LIMITS,
  });
}

const pass = (sequence: number, more: Partial<NativeBatch>): NativeBatch => ({
  stack: 0,
  sequences: Int32Array.of(sequence),
  offsets: Int32Array.of(0, TOKENS.length),
  tokens: TOKENS,
  hiddenStates: true,
  ...more,
});

function relativeError(found: Float32Array, expected: Float32Array): number {
  const most = expected.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  return found.reduce((largest, value, i) => Math.max(largest, Math.abs(value - expected[i]!)), 0) / most;
}

describe("a pass that is routed by the routers' own choice", () => {
  for (const name of [
    ...[
      'switch-tiny',
      'nllb-moe-tiny',
      'olmoe-tiny',
      'mixtral-tiny',
      'qwen2-moe-tiny',
      'qwen3-moe-tiny',
      'gpt-oss-tiny',
    ],
    ...['deepseek-v2-lite-tiny', 'deepseek-v3-tiny', 'glm4-moe-tiny'],
  ]) {
    const fixture = oracleFixture(name);
    it(`answers as in exact mode: ${name}`, async () => {
      const engine = await open(fixture, name);
      const exact = engine.runBatch(pass(1, { routerLogits: true }), null);
      const { experts, alpha } = trueRouting(exact, TOKENS.length, engine.shape);
      const routed = engine.runBatch(pass(2, { routing: { experts, alpha, k: engine.shape.topK } }), null);
      expect(relativeError(routed.hiddenStates!, exact.hiddenStates!)).toBeLessThan(1e-5);
      engine.close();
    });
  }

  const glm = oracleFixture('glm4-moe-tiny');
  it('is refused where experts are scaled by sigmoids as they are', async () => {
    const model = join(root, 'plain-sigmoids');
    cpSync(glm, model, { recursive: true });
    const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8'));
    writeFileSync(join(model, 'config.json'), JSON.stringify({ ...config, norm_topk_prob: false }));
    const engine = await open(model, 'plain-sigmoids-pack');
    const exact = engine.runBatch(pass(1, { routerLogits: true }), null);
    const { experts, alpha } = trueRouting(exact, TOKENS.length, engine.shape);
    expect(() =>
      engine.runBatch(pass(2, { routing: { experts, alpha, k: engine.shape.topK } }), null),
    ).toThrow(/sigmoids as they are/);
    engine.runBatch(pass(2, {}), null);
    engine.checkIntegrity();
    engine.close();
  });
});
