/** Turns an option's text into its value. A parser throws `Expected` with what would have been right. */
import { isIP } from 'node:net';
import { formatBytes, parseBytes, parseShare } from '../text/bytes.js';

export type Parser<T> = (text: string) => T;

/** What was expected instead; the caller adds the option's name and source. */
export class Expected extends Error {
  constructor(
    /** Completes "Expected the … option to be". */
    readonly what: string,
    readonly example: string,
  ) {
    super(what);
  }
}

export function text(what: string, example: string): Parser<string> {
  return (value) => {
    if (value.trim() === '' || value.includes('\0')) throw new Expected(what, example);
    return value;
  };
}

export function wholeNumber(least: number, most: number, example = '8'): Parser<number> {
  return (value) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= least && number <= most)) {
      throw new Expected(`a whole number from ${least} to ${most}`, example);
    }
    return number;
  };
}

/** `reasons` explains values a user may well try. */
export function oneOf<const T extends string>(
  values: readonly T[],
  reasons: Record<string, string> = {},
): Parser<T> {
  return (value) => {
    const found = values.find((candidate) => candidate === value);
    if (found !== undefined) return found;
    const reason = Object.hasOwn(reasons, value) ? ` (${reasons[value]})` : '';
    throw new Expected(`${values.length > 1 ? 'one of ' : ''}${values.join(', ')}${reason}`, values[0]!);
  };
}

/** A size or a share, checked but kept as written: a share has a value only once the model is known. */
export function size({ share, zero }: { share: boolean; zero: boolean }): Parser<string> {
  return (value) => {
    const parsed = parseBytes(value);
    if (parsed !== undefined && (parsed > 0 || zero)) return value.trim();
    if (share && parseShare(value) !== undefined) return value.trim();
    const what = share ? 'a size in bytes or a share above 0% and up to 100%' : 'a size in bytes';
    throw new Expected(what, share ? '2GiB, 700MB or 50%' : '2GiB or 700MB');
  };
}

export function bytes(least: number, most: number): Parser<number> {
  return (value) => {
    const parsed = parseBytes(value);
    if (parsed === undefined || parsed < least || parsed > most) {
      throw new Expected(`a size from ${formatBytes(least)} to ${formatBytes(most)}`, '64KiB');
    }
    return parsed;
  };
}

/** Bytes per second of `12GB/s`; 0 is off. */
export const bandwidth: Parser<number> = (value) => {
  const parsed = parseBytes(value.trim().replace(/\/s$/i, ''));
  if (parsed === undefined) throw new Expected('a rate in bytes per second, or 0 for none', '12GB/s');
  return parsed;
};

const TIME_UNITS: Record<string, number> = {
  us: 0.001,
  ms: 1,
  '': 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
};

/** Milliseconds of `30s`, `500ms`, `20us`, `2m`; a plain number is milliseconds. */
export function duration(leastMs: number, mostMs: number): Parser<number> {
  return (value) => {
    const match = /^(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]{0,3})$/i.exec(value.trim());
    const unit = match === null ? undefined : TIME_UNITS[match[2]!.toLowerCase()];
    const ms = unit === undefined ? Number.NaN : Number(match![1]) * unit;
    if (!(ms >= leastMs && ms <= mostMs)) {
      throw new Expected(`a time from ${leastMs}ms to ${mostMs / 1000}s`, '30s or 500ms');
    }
    return ms;
  };
}

/** Items between commas, each by its own parser. */
export function list<T>(item: Parser<T>): Parser<T[]> {
  return (value) => value.split(',').map((part) => item(part.trim()));
}

/** A name as the Host header carries it, in lower case and without port. */
export const hostName: Parser<string> = (value) => {
  const host = value.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) === 0 && !/^[a-z0-9._-]{1,253}$/i.test(host)) {
    throw new Expected('host names without port, separated by commas', 'sida.example.org,10.0.0.5');
  }
  return host.toLowerCase();
};

/** Scheme, host and port, as browsers write them. */
export const webOrigin: Parser<string> = (value) => {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url?.origin !== value || !/^https?:$/.test(url.protocol)) {
    throw new Expected('origins separated by commas', 'https://app.example.org,http://localhost:3000');
  }
  return value;
};

/** A Redis server: `redis://`, or `rediss://` with TLS; name, password and number of the database as usual. */
export const redisUrl: Parser<string> = (value) => {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !['redis:', 'rediss:'].includes(url.protocol) || url.hostname === '') {
    throw new Expected('the URL of a Redis server', 'redis://127.0.0.1:6379');
  }
  return value;
};

/** An IP address or a host name to listen on. */
export const address: Parser<string> = (value) => {
  const host = value.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) === 0 && !/^(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host)) {
    throw new Expected('an address or a host name', '127.0.0.1');
  }
  return host;
};

/** Whether only this machine can reach `host`. */
export function isLoopback(host: string): boolean {
  return (
    host.toLowerCase() === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
  );
}
