/** Counts what a replay moves, by the phase that needed it. */
import type { PassWatch } from '../../../dist/evaluation/replay-rules.js';
import type { Phase, RecordedPass } from './routing-trace.js';

export interface Moves {
  misses: number;
  prefetches: number;
  bytes: number;
}

export class Tally {
  readonly phases: Record<Phase, Moves> = {
    prefill: { misses: 0, prefetches: 0, bytes: 0 },
    decode: { misses: 0, prefetches: 0, bytes: 0 },
  };
  /** Prefetched and not used yet, with the phase that is charged if it never is. */
  readonly #unused = new Map<number, { phase: Phase; bytes: number }>();

  /** A prefetch is charged to the phase that uses it: a step may load what the next prompt needs. */
  watch(bytesOf: (id: number) => number): PassWatch<RecordedPass> {
    return {
      load: ({ phase }, id, demanded) => {
        const bytes = bytesOf(id);
        // It was evicted before its use.
        this.#pay(id);
        if (!demanded) {
          this.#unused.set(id, { phase, bytes });
          return;
        }
        this.phases[phase].misses += 1;
        this.phases[phase].bytes += bytes;
      },
      use: ({ phase }, id) => this.#pay(id, phase),
    };
  }

  /** Call at the end of a replay. */
  settle(): void {
    for (const id of this.#unused.keys()) this.#pay(id);
  }

  #pay(id: number, phase?: Phase): void {
    const load = this.#unused.get(id);
    if (load === undefined) return;
    this.#unused.delete(id);
    const own = this.phases[phase ?? load.phase];
    own.prefetches += 1;
    own.bytes += load.bytes;
  }
}
