import { isIPv6 } from 'node:net';
import { describe, expect, it } from 'vitest';
import { STRING_FORMATS } from '../../../src/structured-output/string-formats.js';

const follows = (format: string, text: string) => new RegExp(STRING_FORMATS.get(format)!, 'u').test(text);

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

it.each<[string, string, boolean]>([
  ['date', '2024-02-29', true],
  ['date', '2023-02-29', false],
  ['date', '1900-02-29', false],
  ['date', '2000-02-29', true],
  ['date', '2024-04-31', false],
  ['date-time', '2020-06-15T10:00:00.123456789Z', true],
  ['date-time', '2020-06-15T10:60:00Z', false],
  ['time', '23:59:59+05:30', true],
  ['uuid', '2EB8AA08-AA98-11EA-B4AA-73B441D16380', true],
  ['email', "o'brien@example.com", true],
  ['email', 'a..b@example.com', false],
  ['uri', 'https://example.com?query=value#part', true],
  ['uri', 'mailto:John.Doe@example.com', true],
  ['uri', 'https://a b', false],
  ['ipv4', '192.168.0.1', true],
  ['ipv4', '01.2.3.4', false],
  ['hostname', '-a.com', false],
])('the format %s and "%s"', (format, text, right) => {
  expect(follows(format, text)).toBe(right);
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
