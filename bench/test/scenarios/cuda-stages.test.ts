import { describe, expect, it } from 'vitest';
import { availableHostBytes, tooLarge } from '../../src/runs/gpu.js';
import { CUDA_STAGES, selectStages } from '../../src/scenarios/cuda-stages.js';
import { modelNamed } from '../../src/scenarios/models.js';
import {
  isReference,
  type Measurement,
  measurementName,
  referenceKey,
} from '../../src/scenarios/scenarios.js';
import { systemNamed } from '../../src/scenarios/systems.js';

const ALL = CUDA_STAGES.flatMap(({ measurements }) => measurements);
const place = (name: string) => {
  const index = ALL.map(measurementName).indexOf(name);
  expect(index, name).toBeGreaterThanOrEqual(0);
  return index;
};

describe('CUDA_STAGES', () => {
  it('has each measurement once, all of a GPU with the experts in host memory', () => {
    expect(new Set(ALL.map(measurementName)).size).toBe(ALL.length);
    for (const { scenario } of ALL) expect(scenario).toMatchObject({ device: 'cuda', link: 'host' });
  });

  it('measures a resident run before what is compared with it', () => {
    const seen = new Set<string>();
    for (const measurement of ALL) {
      if (isReference(measurement)) seen.add(referenceKey(measurement.scenario));
      if (systemNamed(measurement.system).driver === 'gpu-peer') continue;
      expect(seen, measurementName(measurement)).toContain(referenceKey(measurement.scenario));
    }
  });

  it('puts what the targets need first: 128 experts and their peers, then 256, then other budgets and inputs', () => {
    const at = (model: string, rest: string) => place(`${model}/sst2/${rest}`);
    const order = [
      at('switch-mini', '20%/host/cuda/lstm'),
      at('switch-base-8-bf16', '20%/host/cuda/lstm'),
      at('switch-base-128-bf16', '20%/host/cuda/predicted'),
      at('switch-base-128-bf16', '20%/host/cuda/batch-16/predicted'),
      at('switch-base-128-bf16', '100%/host/cuda/transformers-gpu'),
      at('switch-base-256-bf16', '20%/host/cuda/predicted'),
      at('switch-base-256-bf16', '100%/host/cuda/transformers-gpu'),
      at('switch-base-128-bf16', '5%/host/cuda/lstm'),
      place('switch-base-128-bf16/multirc/20%/host/cuda/lstm'),
    ];
    expect(order).toEqual([...order].sort((a, b) => a - b));
  });

  it('has every size, budget, batch and task of the plan', () => {
    for (const experts of [8, 64, 128, 256]) {
      const own = ALL.filter(({ scenario }) => scenario.model === `switch-base-${experts}-bf16`);
      const values = <K extends keyof Measurement['scenario']>(key: K) =>
        [...new Set(own.map(({ scenario }) => scenario[key]))].sort();
      expect(values('share')).toEqual([0.05, 0.1, 0.2, 0.5, 1]);
      expect(values('batch')).toEqual([1, 16]);
      expect(values('data')).toEqual(['mrpc', 'multirc', 'sst2']);
    }
  });
});

describe('selectStages', () => {
  it('keeps the order, and the resident run that a wanted measurement is compared with', () => {
    const chosen = selectStages(CUDA_STAGES, ['switch-base-128-bf16/sst2/*/cuda/lstm']);
    expect(chosen.map((measurements) => measurements.map(measurementName))).toEqual([
      ['switch-base-128-bf16/sst2/100%/host/cuda/resident', 'switch-base-128-bf16/sst2/20%/host/cuda/lstm'],
      ['50%', '10%', '5%'].map((share) => `switch-base-128-bf16/sst2/${share}/host/cuda/lstm`),
    ]);
  });
});

describe('tooLarge', () => {
  const measurement = (share: number): Measurement => ({
    scenario: {
      ...{ model: 'switch-base-256-bf16', data: 'sst2', share, link: 'host', device: 'cuda' },
      ...{ batch: 1, lookahead: 4 },
    },
    system: share === 1 ? 'resident' : 'lstm',
  });
  const model = modelNamed('switch-base-256-bf16');

  it('says what a GPU or a host of too few bytes lacks', () => {
    expect(tooLarge(measurement(1), model, 141e9, 120e9)).toBeUndefined();
    expect(tooLarge(measurement(1), model, 24e9, 120e9)).toMatch(
      /needs 29.* GiB of the GPU at 100 %, which has 22\.4 GiB/,
    );
    expect(tooLarge(measurement(0.2), model, 24e9, 120e9)).toBeUndefined();
    expect(tooLarge(measurement(0.2), model, 24e9, 16e9)).toMatch(
      /host memory for its experts, 14\.9 GiB are free/,
    );
    // Nothing stays behind a device that holds it all.
    expect(tooLarge(measurement(1), model, 141e9, 16e9)).toBeUndefined();
  });

  it('asks this machine for what is free', () => {
    expect(availableHostBytes()).toBeGreaterThan(1e8);
  });
});
