import { expect, it, vi } from 'vitest';
import { PeerLog, peerIdentityOf } from '../../../src/engine/peer-log.js';
import type { PeerLink } from '../../../src/native/addon-types.js';

const link = (more: Partial<PeerLink>): PeerLink => ({
  ...{
    address: '10.0.0.6:7500',
    connected: true,
    error: '',
    held: 3072,
    requests: 0,
    experts: 0,
    failures: 0,
  },
  ...{ sentBytes: 0, receivedBytes: 0, roundTripSeconds: 0, bytesPerSecond: 0 },
  ...more,
});

it('tells when a peer comes and goes, once', () => {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const log = new PeerLog([link({ connected: false, error: 'Connection refused' })]);
  log.show([link({ connected: false, error: 'no answer in time' })]);
  log.show([link({})]);
  log.show([link({ experts: 9 })]);
  log.show([link({ connected: false, error: 'it has ended' })]);
  const lines = write.mock.calls.map(([line]) => String(line).trim());
  write.mockRestore();
  expect(lines).toEqual([
    'Expert peer 10.0.0.6:7500: Connection refused. Its experts are loaded here until it is back',
    'Expert peer 10.0.0.6:7500: connected, holds 3,072 experts',
    'Expert peer 10.0.0.6:7500: it has ended. Its experts are loaded here until it is back',
  ]);
});

it('names everything that bits depend on', () => {
  const all = [peerIdentityOf('a', 'f32'), peerIdentityOf('b', 'f32'), peerIdentityOf('a', 'int8')];
  expect(new Set(all).size).toBe(3);
});
