/** Metrics whose values are kept elsewhere and read at each scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';

/**
 * Registers a counter with the value of `read`, or 0 while that is undefined because the engine has not reported yet.
 */
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

/** Registers a gauge with the value of `read`, or 0 while that is undefined. */
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
