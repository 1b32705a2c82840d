/** Metrics whose values are kept elsewhere and read at each scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';

export type Copied = [name: string, help: string, read: () => number | undefined];

/** A value is 0 while `read` gives undefined, because the engine has not reported yet. */
export function copyCounters(registry: Registry, metrics: readonly Copied[]): void {
  for (const [name, help, read] of metrics) {
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(read() ?? 0);
      },
    });
  }
}

export function copyGauges(registry: Registry, metrics: readonly Copied[]): void {
  for (const [name, help, read] of metrics) {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read() ?? 0);
      },
    });
  }
}

/** `read` gives the count of each value of the label. */
export function copyLabelled(
  registry: Registry,
  [name, help, label]: [name: string, help: string, label: string],
  read: () => Record<string, number>,
): void {
  new Counter({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset();
      for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
    },
  });
}
