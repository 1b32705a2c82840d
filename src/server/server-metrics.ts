/** Creates all metrics of a server process: its own, and those of its engines and queues. */
import { AggregatorRegistry, Registry } from 'prom-client';
import type { EngineHandle } from '../engine/engine-handle.js';
import { copyEngine } from '../engine/engine-metrics.js';
import { copyGauges } from '../observability/copied-metrics.js';
import { createJobTimes, createMetrics, type Metrics } from '../observability/metrics.js';
import { createTokenTimes } from '../observability/token-times.js';
import type { JobQueue } from '../queue/job-queue.js';
import { copyQueue } from '../queue/queue-metrics.js';
import type { BudgetKeeper } from './budget/budget-keeper.js';
import type { TimeKind } from './budget/target-window.js';

interface MeteredModel {
  /** Value of the label `model`. The only model of a server needs no label. */
  name?: string | undefined;
  engine: EngineHandle;
  queue: Pick<JobQueue, 'stats' | 'outage'>;
  keeper?: BudgetKeeper | undefined;
}

/**
 * Returns the metrics for each model. They share those of the server, and each counts the jobs of its own model. With
 * several models, the metrics of each carry the label `model`.
 */
export function serverMetrics(models: readonly [MeteredModel, ...MeteredModel[]]): [Metrics, ...Metrics[]] {
  const shared = createMetrics();
  if (models.length === 1) return [{ ...shared, ...meter(shared.registry, models[0]) }];
  const registries: Registry[] = [];
  const text = async () => {
    const each = await Promise.all(registries.map((registry) => registry.getMetricsAsJSON()));
    // A name may stand only once in a scrape, with the values of all models below it.
    const joined = AggregatorRegistry.aggregate(each);
    return `${await shared.registry.metrics()}\n${await joined.metrics()}`;
  };
  const of = (model: MeteredModel): Metrics => {
    const registry = new Registry();
    registry.setDefaultLabels({ model: model.name! });
    registries.push(registry);
    return { ...shared, text, ...meter(registry, model) };
  };
  const [first, ...others] = models;
  return [of(first), ...others.map(of)];
}

function meter(registry: Registry, { engine, queue, keeper }: MeteredModel) {
  const add = (kind: TimeKind, ms: number) => keeper?.window.add(kind, ms, performance.now());
  const times = { ...createJobTimes(registry), ...createTokenTimes(registry, add) };
  copyQueue(registry, queue);
  copyEngine(registry, engine);
  copyGauges(registry, [
    [
      'sida_target_ratio',
      'Measured time over latency target; above 1 it is missed',
      () => keeper?.kept.ratio ?? undefined,
    ],
    [
      'sida_target_unmet',
      '1 while no budget up to the cap meets the latency target',
      () => Number(keeper !== undefined && keeper.kept.unmet !== null),
    ],
    ['sida_budget_cap_bytes', "The operator's budget, which targets stay below", () => keeper?.kept.capBytes],
  ]);
  return times;
}
