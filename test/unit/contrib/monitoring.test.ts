// The dashboard and the alerts name metrics that there are, with labels that they have.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { MemoryQueue } from '../../../src/queue/memory/memory-queue.js';
import { serverMetrics } from '../../../src/server/server-metrics.js';
import { ScriptedEngine } from '../queue/scripted-engine.js';

const CONTRIB = join(import.meta.dirname, '..', '..', '..', 'contrib');

/** Names as Prometheus sees them, with the labels of each. */
async function exported(): Promise<Map<string, Set<string>>> {
  const engine = new ScriptedEngine();
  const queue = new MemoryQueue(engine, { bound: 1, deadlineMs: 1 });
  const [{ registry }] = serverMetrics([{ engine, queue }]);
  const names = new Map<string, Set<string>>();
  for (const { name, type, values } of await registry.getMetricsAsJSON()) {
    const declared =
      (registry.getSingleMetric(name) as unknown as { labelNames?: string[] }).labelNames ?? [];
    const labels = new Set([
      ...declared,
      ...values.flatMap((value) => Object.keys(value.labels)),
      'instance',
      'job',
    ]);
    names.set(name, labels);
    if (String(type) !== 'histogram') continue;
    for (const part of ['bucket', 'sum', 'count']) names.set(`${name}_${part}`, new Set([...labels, 'le']));
  }
  return names;
}

it('metrics are named as promtool asks', async () => {
  const [{ registry }] = serverMetrics([
    {
      engine: new ScriptedEngine(),
      queue: new MemoryQueue(new ScriptedEngine(), { bound: 1, deadlineMs: 1 }),
    },
  ]);
  for (const { name, type, help } of await registry.getMetricsAsJSON()) {
    expect(name.endsWith('_total'), name).toBe(String(type) === 'counter');
    expect(name, name).toMatch(/^sida_[a-z0-9_]+$/);
    expect(help, name).not.toBe('');
  }
});

const USE = /\b(sida_[a-z0-9_]+)(?:\{([^}]*)\})?/g;

it.each(['grafana/dashboard.json', 'prometheus/alerts.yaml'])('%s', async (file) => {
  const known = await exported();
  // In JSON the quotes inside an expression are escaped.
  const text = readFileSync(join(CONTRIB, file), 'utf8').replaceAll('\\"', '"');
  const uses = [...text.matchAll(USE)];
  expect(uses.length).toBeGreaterThan(10);
  for (const [, name, matchers = ''] of uses) {
    expect(known.has(name!), name).toBe(true);
    for (const [, label] of matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)) {
      expect(known.get(name!)!.has(label!), `${name} has a label ${label}`).toBe(true);
    }
  }
});

it('the dashboard is JSON whose panels each ask something', () => {
  const { panels } = JSON.parse(readFileSync(join(CONTRIB, 'grafana/dashboard.json'), 'utf8'));
  expect(panels.length).toBeGreaterThan(10);
  for (const { title, targets } of panels) expect(targets.length, title).toBeGreaterThan(0);
});
