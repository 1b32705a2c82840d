/** Ends what waits for jobs that Redis has lost, and for jobs whose ends were not heard. */
import type { QueueLink } from './queue-link.js';
import { lost } from './redis-client.js';
import type { Submission } from './submission.js';
import type { JobWatch } from './watch-job.js';

export class LostJobs {
  /** Jobs that were absent at the last look. One that is absent twice is lost: its end cannot be under way. */
  #absent = new Set<string>();

  async look(
    link: QueueLink,
    open: ReadonlyMap<string, Submission>,
    watches: ReadonlyMap<JobWatch, string>,
  ): Promise<void> {
    const ids = [...new Set([...open.keys(), ...watches.values()])];
    const states = ids.length === 0 ? [] : await link.states(ids);
    const absent = new Set(ids.filter((_, i) => states[i] === 'absent'));
    const ended = new Set(ids.filter((_, i) => states[i] === 'ended'));
    const isLost = (id: string) => absent.has(id) && this.#absent.has(id);
    for (const [id, submission] of [...open]) {
      if (isLost(id)) submission.settle(lost());
      else if (ended.has(id)) await submission.readEnd();
    }
    for (const [watch, id] of [...watches]) {
      if (isLost(id)) watch.lose();
      else if (ended.has(id)) watch.look();
    }
    this.#absent = absent;
  }
}
