import { expect, it } from 'vitest';
import { peerText, sharesText } from '../../../src/page/peers.js';

const peer = {
  address: '10.0.0.6:7500',
  connected: true,
  error: null,
  held: 3072,
  experts: 1234,
  failures: 0,
  sent_bytes: 1,
  received_bytes: 2,
  round_trip_ms: 0.05,
  bytes_per_second: 2 ** 30,
};

it('tells what a connected peer holds, has computed and has failed to answer', () => {
  expect(peerText(peer)).toBe(
    '10.0.0.6:7500: connected, holds 3,072 experts, computed 1,234; 0.05 ms there and back, 1.0 GiB/s.',
  );
  expect(peerText({ ...peer, failures: 2 })).toContain('computed 1,234, 2 requests without an answer;');
});

it('tells why a peer is not connected', () => {
  const gone = { ...peer, connected: false, error: 'it has ended', failures: 1 };
  expect(peerText(gone)).toBe(
    '10.0.0.6:7500: it has ended. Its experts are loaded here, 1 request without an answer.',
  );
});

it('tells the share of the needed experts that peers computed', () => {
  const found = { resident: 50, prefetched: 10, late: 5, on_demand: 9, peer: 25, cpu: 1 };
  expect(sharesText(found)).toBe('Expert peers computed 25.0 % of 100 experts needed.');
  expect(sharesText({ resident: 0, prefetched: 0, late: 0, on_demand: 0, peer: 0, cpu: 0 })).toBe(
    'Expert peers have computed nothing yet.',
  );
});
