import { expect, it } from 'vitest';
import type { ModelInfo } from '../../../../src/protocol/engine-messages.js';
import { noCost } from '../../../../src/protocol/expert-cost.js';
import { PROTOCOL, queueNameOf, refuseTables } from '../../../../src/queue/redis/queue-name.js';

const model: Pick<ModelInfo, 'fingerprint' | 'predictor'> = {
  fingerprint: 'a'.repeat(64),
  predictor: { name: 'lstm', fingerprint: null, warnings: [] },
};
const config = { activations: 'f32', kv: 'f32', device: 'cpu', routing: 'exact', routingK: 1 } as const;

it('is the same for workers that give the same answers', () => {
  const name = queueNameOf(model, config);
  expect(name).toMatch(/^v\d+-[0-9a-f]{24}$/);
  // In exact mode the predictor loads experts but does not change answers.
  expect(queueNameOf({ ...model, predictor: { name: null, fingerprint: null, warnings: [] } }, config)).toBe(
    name,
  );
});

it('differs for another model, arithmetic, routing, or predictor that routes', () => {
  const names = [
    queueNameOf(model, config),
    queueNameOf({ ...model, fingerprint: 'b'.repeat(64) }, config),
    queueNameOf(model, { ...config, activations: 'int8' }),
    queueNameOf(model, { ...config, kv: 'bf16' }),
    queueNameOf(model, { ...config, device: 'cuda' }),
    queueNameOf(model, { ...config, routing: 'predicted' }),
    queueNameOf(model, { ...config, routingK: 2 }),
    queueNameOf(
      { ...model, predictor: { name: 'token', fingerprint: null, warnings: [] } },
      { ...config, routing: 'predicted' },
    ),
    queueNameOf(
      { ...model, predictor: { name: 'lstm', fingerprint: 'c'.repeat(64), warnings: [] } },
      { ...config, routing: 'predicted' },
    ),
  ];
  expect(new Set(names).size).toBe(names.length);
});

it('leaves requests that tables would route to the queues that name the tables', () => {
  const asking = (mode: 'exact' | 'predicted' | null) => ({ kind: 'classify', routing: { mode, k: null } });
  for (const mode of ['exact', null] as const) {
    refuseTables(asking(mode), 'exact');
    refuseTables(asking(mode), 'predicted');
  }
  refuseTables({ kind: 'classify' }, 'exact');
  refuseTables(asking('predicted'), 'predicted');
  for (const routing of ['exact', undefined] as const) {
    expect(() => refuseTables(asking('predicted'), routing)).toThrow(/start .* with --routing predicted/);
  }
});

it('has a version of its own for each form of the costs that results carry', () => {
  const fields = [
    'needed',
    'resident',
    'prefetched',
    'late',
    'on_demand',
    'peer',
    'cpu',
    'loaded',
    'bytes',
    'stall_ms',
  ];
  expect([PROTOCOL, Object.keys(noCost(1))]).toEqual([
    14,
    [...fields, 'predicted', 'hits_top1', 'hits_top3'],
  ]);
});
