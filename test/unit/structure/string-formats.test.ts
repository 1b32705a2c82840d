import { isIPv6 } from 'node:net';
import { describe, expect, it } from 'vitest';
import { STRING_FORMATS } from '../../../src/structure/string-formats.js';

const follows = (format: string, text: string) => new RegExp(STRING_FORMATS[format]!, 'u').test(text);

describe('the format ipv6', () => {
  it.each([
    '1:2:3:4:5:6:7:8',
    '2001:db8::ff00:42:8329',
    '::',
    '::1',
    '1::',
    '1:2:3:4:5:6:7::',
    '::2:3:4:5:6:7:8',
    '1::3:4:5:6:7:8',
  ])('has %s', (text) => {
    expect(isIPv6(text)).toBe(true);
    expect(follows('ipv6', text)).toBe(true);
  });

  it.each(['', ':', ':::', '1:2:3', '1::2::3', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8::', '12345::', 'g::'])(
    'does not have "%s"',
    (text) => {
      expect(isIPv6(text)).toBe(false);
      expect(follows('ipv6', text)).toBe(false);
    },
  );
});

describe('the format duration', () => {
  it.each(['P1D', 'P3Y6M4D', 'P1Y', 'P2W', 'PT36H', 'PT1M30S', 'P1DT2H3M4S', 'PT0S'])('has %s', (text) => {
    expect(follows('duration', text)).toBe(true);
  });

  it.each(['', 'P', 'PT', 'P1', '1D', 'P1DT', 'P1S', 'PT1D', 'P1W2D', 'P1Y1D', 'PT1H1S', 'PT1.5S'])(
    'does not have "%s"',
    (text) => {
      expect(follows('duration', text)).toBe(false);
    },
  );
});
