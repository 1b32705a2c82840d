// What `sida trace` and `sida eval` take for the routers' choice is their choice: a pass that is routed by it gives the
// states of exact mode, whatever scores, groups, corrections and scales a family's routers have.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { trueRouting } from '../../src/evaluation/model-runner.js';
import { oracleFixture } from '../support/oracle-fixture.js';
import { fresh, openEngine, packOf, passOf } from './fixture.js';

const LIMITS = { maxBatchTokens: 64, kvTokens: 256, threads: 1, maxRoutingK: 8, routers: true };
const TOKENS = Int32Array.from({ length: 60 }, (_, i) => 3 + ((i * 37) % 500));

const open = async (model: string) => openEngine(await packOf(model), LIMITS);
const pass = (sequence: number, more: object) => passOf(TOKENS, sequence, { hiddenStates: true, ...more });

function relativeError(found: Float32Array, expected: Float32Array): number {
  const most = expected.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  return found.reduce((largest, value, i) => Math.max(largest, Math.abs(value - expected[i]!)), 0) / most;
}

describe("a pass that is routed by the routers' own choice", () => {
  for (const name of [
    ...['switch-tiny', 'nllb-moe-tiny', 'olmoe-tiny', 'mixtral-tiny', 'qwen2-moe-tiny', 'qwen3-moe-tiny'],
    ...['gpt-oss-tiny', 'deepseek-v2-lite-tiny', 'deepseek-v3-tiny', 'glm4-moe-tiny'],
  ]) {
    const fixture = oracleFixture(name);
    it(`answers as in exact mode: ${name}`, async () => {
      const engine = await open(fixture);
      const exact = engine.runBatch(pass(1, { routerLogits: true }), null);
      const { experts, alpha } = trueRouting(exact, TOKENS.length, engine.shape);
      const routed = engine.runBatch(pass(2, { routing: { experts, alpha, k: engine.shape.topK } }), null);
      expect(relativeError(routed.hiddenStates!, exact.hiddenStates!)).toBeLessThan(1e-5);
      engine.close();
    });
  }

  const glm = oracleFixture('glm4-moe-tiny');
  it('is refused where experts are scaled by sigmoids as they are', async () => {
    const model = fresh();
    cpSync(glm, model, { recursive: true });
    const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8'));
    writeFileSync(join(model, 'config.json'), JSON.stringify({ ...config, norm_topk_prob: false }));
    const engine = await open(model);
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
