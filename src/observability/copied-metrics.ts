/** Metrics whose values live elsewhere and are read at a scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** A counter whose value lives elsewhere; undefined is an engine that has not reported yet. */
export function copyCounter(
  registry: Registry,
  name: string,
  help: string,
  read: () => number | undefined,
): void {
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

export function copyGauge(
  registry: Registry,
  name: string,
  help: string,
  read: () => number | undefined,
): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read() ?? 0);
    },
  });
}
