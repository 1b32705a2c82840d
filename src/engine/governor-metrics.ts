/** The governor's figures as metrics, read at each scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { copyCounter, copyGauge } from '../observability/copied-metrics.js';
import {
  ARMS,
  type ArmFigures,
  GOVERNOR_STATES,
  type GovernorFigures,
} from '../protocol/governor-figures.js';

const BY_ARM: [name: string, help: string, figure: keyof ArmFigures][] = [
  [
    'sida_governor_windows_total',
    'Windows of passes that the governor of prediction measured, with hash tables (predict) and without (rest)',
    'windows',
  ],
  ['sida_governor_passes_total', 'Passes in these windows', 'passes'],
  ['sida_governor_tokens_total', 'Tokens of these passes', 'tokens'],
  [
    'sida_governor_seconds_total',
    'Seconds that these passes took of the inference thread, waits included',
    'seconds',
  ],
];

export function copyGovernor(registry: Registry, read: () => GovernorFigures | undefined): void {
  new Gauge({
    name: 'sida_governor_state',
    help:
      '1 for the state of prediction: active, probing (with and without hash tables in turn), resting (they do not pay), ' +
      'not_needed (every expert has a slot), off (no predictor)',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const now = read()?.state;
      this.reset();
      for (const state of GOVERNOR_STATES) this.set({ state }, state === now ? 1 : 0);
    },
  });
  for (const [name, help, figure] of BY_ARM) {
    new Counter({
      name,
      help,
      labelNames: ['arm'],
      registers: [registry],
      collect() {
        this.reset();
        for (const arm of ARMS) this.inc({ arm }, read()?.arms[arm][figure] ?? 0);
      },
    });
  }
  copyCounter(
    registry,
    'sida_governor_switches_total',
    'Times that the governor let prediction rest, or run again, other than after the measurement before',
    () => read()?.switches,
  );
  copyGauge(
    registry,
    'sida_governor_gain',
    'Share of the time of passes that hash tables saved in the latest measurement; below 0 if they cost time',
    () => read()?.gain?.mean,
  );
  copyGauge(
    registry,
    'sida_governor_pause_seconds',
    'Seconds of work until the governor measures again',
    () => read()?.pauseSeconds,
  );
}
