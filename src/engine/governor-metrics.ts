/** The governors' figures as metrics, read at each scrape. */
import { Counter, Gauge, type Registry } from 'prom-client';
import {
  ARMS,
  type ArmFigures,
  GOVERNOR_STATES,
  type Governors,
  SOURCES,
} from '../protocol/governor-figures.js';

const BY_ARM: [name: string, help: string, figure: keyof ArmFigures][] = [
  [
    'sida_governor_windows_total',
    'Windows of passes that a governor measured, with its source of prediction (predict) and without (rest)',
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

export function copyGovernors(registry: Registry, read: () => Governors | undefined): void {
  new Gauge({
    name: 'sida_governor_state',
    help:
      "1 for a source's state: active, probing (passes with and without it in turn), resting (it does not pay), " +
      'not_needed (every expert has a slot), off (no predictor, or no layer looks ahead)',
    labelNames: ['source', 'state'],
    registers: [registry],
    collect() {
      this.reset();
      for (const source of SOURCES) {
        const now = read()?.[source].state;
        for (const state of GOVERNOR_STATES) this.set({ source, state }, state === now ? 1 : 0);
      }
    },
  });
  for (const [name, help, figure] of BY_ARM) {
    new Counter({
      name,
      help,
      labelNames: ['source', 'arm'],
      registers: [registry],
      collect() {
        this.reset();
        for (const source of SOURCES)
          for (const arm of ARMS) this.inc({ source, arm }, read()?.[source].arms[arm][figure] ?? 0);
      },
    });
  }
  new Counter({
    name: 'sida_governor_switches_total',
    help: 'Measurements after which a governor decided otherwise than after the one before',
    labelNames: ['source'],
    registers: [registry],
    collect() {
      this.reset();
      for (const source of SOURCES) this.inc({ source }, read()?.[source].switches ?? 0);
    },
  });
  new Gauge({
    name: 'sida_governor_gain',
    help: 'Share of the time of passes that a source saved in the latest measurement; below 0 if it cost time',
    labelNames: ['source'],
    registers: [registry],
    collect() {
      this.reset();
      for (const source of SOURCES) {
        const gain = read()?.[source].gain;
        if (gain != null) this.set({ source }, gain.mean);
      }
    },
  });
  new Gauge({
    name: 'sida_governor_pause_seconds',
    help: 'Seconds of work until a governor measures again',
    labelNames: ['source'],
    registers: [registry],
    collect() {
      this.reset();
      for (const source of SOURCES) this.set({ source }, read()?.[source].pauseSeconds ?? 0);
    },
  });
}
