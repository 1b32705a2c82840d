// Which batch the governor of tables is told that a pass belongs to.
import { expect, it } from 'vitest';
import { planScoring } from '../../../../src/batching/scoring-plan.js';
import type { ItemWork } from '../../../../src/protocol/item-work.js';
import { DECODER_ONLY } from '../../inference/scripted-native-engine.js';
import { kindBench } from './kind-bench.js';

const generate: ItemWork = { kind: 'generate', maxTokens: 3, logprobs: null, choices: [null] };
const search: ItemWork = {
  kind: 'search',
  beams: 2,
  lengthPenalty: 1,
  earlyStopping: false,
  maxTokens: 3,
  best: 1,
};
const long = Array.from({ length: 40 }, () => 2);

it('is that of the oldest prompt in the pass, and none where all rows are those of generations', () => {
  const { kind, forecasts, hold, start } = kindBench({ shape: DECODER_ONLY });
  start(hold(4, [{ work: generate, tokens: long }]));
  kind.step();
  start(hold(5, [{ work: generate, tokens: [3, 4] }]));
  kind.step();
  kind.step();
  expect(forecasts.map(({ oldestBatch }) => oldestBatch)).toEqual([4, 4, Number.POSITIVE_INFINITY]);
});

it('is that of the encoded inputs, of labels, and of beams, which keep no tokens to begin tables with', () => {
  const { kind, forecasts, hold, start } = kindBench({});
  const labels: ItemWork = { kind: 'score', plan: planScoring([[5, 6], [7]], 0, 1) };
  start(hold(2, [{ work: search, tokens: [3] }]));
  start(
    hold(
      3,
      [labels, generate].map((work) => ({ work, tokens: [4] })),
    ),
  );
  kind.step();
  expect(forecasts.map(({ oldestBatch }) => oldestBatch)).toEqual([2, 3, 3, 2]);
  const alone = kindBench({});
  alone.start(alone.hold(2, [{ work: generate, tokens: [3] }]));
  alone.kind.step();
  expect(alone.forecasts.map(({ oldestBatch }) => oldestBatch)).toEqual([2, Number.POSITIVE_INFINITY]);
});
