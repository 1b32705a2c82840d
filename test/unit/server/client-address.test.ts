import { describe, expect, it } from 'vitest';
import { clientOf, isThisMachine } from '../../../src/server/client-address.js';

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
