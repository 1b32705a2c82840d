import type { Connection, Doing, Groups } from './shedding.js';

/** The open connections, grouped by what they do; each group is in the order in which its connections began that. */
export class ConnectionGroups<C extends Connection> {
  readonly groups: Groups<C> & Record<Doing, Set<C>> = {
    beginning: new Set(),
    busy: new Set(),
    idle: new Set(),
    idleAfterWork: new Set(),
  };

  get size(): number {
    const { beginning, busy, idle, idleAfterWork } = this.groups;
    return beginning.size + busy.size + idle.size + idleAfterWork.size;
  }

  has(connection: C): boolean {
    return this.groups[connection.doing].has(connection);
  }

  /** Takes a new connection, or one that begins something else. */
  begin(connection: C, doing: Doing): void {
    this.delete(connection);
    connection.doing = doing;
    connection.since = performance.now();
    this.groups[doing].add(connection);
  }

  delete(connection: C): boolean {
    return this.groups[connection.doing].delete(connection);
  }

  *[Symbol.iterator](): Generator<C> {
    for (const group of Object.values(this.groups)) yield* group;
  }
}
