import { describe, expect, it } from 'vitest';
import { clientOf, isThisMachine } from '../../../src/server/client-address.js';
import { ConnectionGroups } from '../../../src/server/connection-groups.js';
import { type Connection, chooseVictim } from '../../../src/server/shedding.js';

const LIMITS = { graceMs: 1_000, leastRate: 16_384, unreadMs: 60_000 };
const NOW = 1_000_000;

interface Given extends Partial<Connection> {
  name: string;
  /** Milliseconds since it began. */
  age: number;
  /** Bytes of a body that still arrives; undefined: it is complete. */
  body?: number;
  events?: boolean;
  /** Milliseconds for which its client has read nothing. */
  stalled?: number;
}

function connection({ name, age, body, stalled = 0, events = false, ...given }: Given) {
  return {
    name,
    client: '10.0.0.1',
    doing: 'idle' as const,
    since: NOW - age,
    receiving: () => body !== undefined,
    received: () => body ?? 0,
    unread: () => stalled,
    follows: () => events,
    ...given,
  };
}

function victim(scope: { full: boolean; client?: string }, ...given: Given[]) {
  const connections = new ConnectionGroups<ReturnType<typeof connection>>();
  for (const each of given.sort((a, b) => b.age - a.age).map(connection)) {
    const { since } = each;
    connections.begin(each, each.doing);
    each.since = since;
  }
  const found = chooseVictim(connections.groups, LIMITS, NOW, scope);
  return found && [found.connection.name, found.reason];
}

const COMPUTING: Given = { name: 'computing', doing: 'busy', age: 50_000 };
const UNREAD: Given = { name: 'unread', doing: 'busy', age: 90_000, stalled: 61_000 };
const EVENTS: Given = { name: 'events', doing: 'busy', age: 60_000, events: true };
const WORKED: Given = { name: 'worked', doing: 'idleAfterWork', age: 4_000 };
const SLOW: Given = { name: 'slow', doing: 'busy', age: 2_000, body: 30_000 };
const IDLE: Given = { name: 'idle', age: 10 };
const SILENT: Given = { name: 'silent', doing: 'beginning', age: 1_001 };
const NEW: Given = { name: 'new', doing: 'beginning', age: 1 };

describe('the connection that makes way', () => {
  it('is silent, then idle, then slow, then idle after work, then unread, then a follower of events', () => {
    const all = [SILENT, IDLE, SLOW, WORKED, UNREAD, EVENTS, COMPUTING, NEW];
    const order: unknown[] = [];
    while (all.length > 0) {
      const found = victim({ full: true }, ...all);
      if (found === undefined) break;
      order.push(found);
      all.splice(
        all.findIndex(({ name }) => name === found[0]),
        1,
      );
    }
    expect(order).toEqual([
      ['silent', 'silent'],
      ['idle', 'idle'],
      ['slow', 'slow'],
      ['worked', 'idle'],
      ['unread', 'unread'],
      ['events', 'events'],
      ['new', 'silent'],
    ]);
  });

  it('is the oldest of its kind', () => {
    expect(victim({ full: false }, IDLE, { ...IDLE, name: 'older', age: 11 })).toEqual(['older', 'idle']);
  });

  it('is never computed, read, or uploading fast enough', () => {
    const fast: Given = { name: 'fast', doing: 'busy', age: 10_000, body: 163_840 };
    const reading: Given = { name: 'reading', doing: 'busy', age: 100_000, stalled: 59_000 };
    expect(victim({ full: true }, COMPUTING, fast, reading)).toBeUndefined();
  });

  it('is a connection within its grace only when there is no other room', () => {
    const early: Given = { name: 'early', doing: 'busy', age: 900, body: 1 };
    expect(victim({ full: false }, early, NEW)).toBeUndefined();
    expect(victim({ full: true }, early, NEW)).toEqual(['early', 'slow']);
  });

  it('is a slow upload within its grace rather than a connection that has just worked', () => {
    const early: Given = { name: 'early', doing: 'busy', age: 300, body: 1 };
    const justWorked: Given = { ...WORKED, name: 'just worked', age: 100 };
    expect(victim({ full: false }, early, justWorked)).toEqual(['early', 'slow']);
    expect(victim({ full: false }, early, WORKED)).toEqual(['worked', 'idle']);
    expect(victim({ full: false }, { ...early, age: 200 }, justWorked)).toEqual(['just worked', 'idle']);
    expect(victim({ full: false }, { ...early, body: 30_000 }, justWorked)).toEqual(['just worked', 'idle']);
  });

  it('is of the client that has too many', () => {
    const other: Given = { ...IDLE, name: 'other', client: '10.0.0.2' };
    expect(victim({ full: true, client: '10.0.0.2' }, SILENT, IDLE, other)).toEqual(['other', 'idle']);
  });
});

describe('the client of an address', () => {
  it.each([
    ['10.1.2.3', '10.1.2.3'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['2001:db8:0:7::1', '2001:db8:0:7::/64'],
    ['2001:0db8::7:1:2:3:4', '2001:db8:0:7::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
  ])('%s is %s', (address, client) => expect(clientOf(address)).toBe(client));

  it('is this machine on loopback', () => {
    expect(['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'].map(clientOf).every(isThisMachine)).toBe(
      true,
    );
    expect(['128.0.0.1', '2001:db8::1'].map(clientOf).some(isThisMachine)).toBe(false);
  });
});
