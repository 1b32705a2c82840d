/** Parsers turn an option's text into its value. A parser throws `Expected`, which describes a valid value. */
import { isIP } from 'node:net';
import { formatBytes, parseBytes, parseShare } from '../text/bytes.js';

export type Parser<T> = (text: string) => T;

/** Describes a valid value. The caller adds the option's name and source. */
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

export const modelAlias: Parser<string | undefined> = (value) => {
  if (!/^[\w.:-]{1,100}(?:\/[\w.:-]{1,100})?$/.test(value)) {
    throw new Expected('a name of letters, digits and . : _ - with at most one /', 'gpt-oss');
  }
  return value;
};

/** Longest key. */
export const MOST_KEY_CHARACTERS = 512;

/** A key that clients can send: HTTP trims header values, and reads other characters as Latin-1. */
export const apiKey: Parser<string> = (value) => {
  if (value.length > MOST_KEY_CHARACTERS || !/^[!-~]([ -~]*[!-~])?$/.test(value)) {
    throw new Expected(
      `a key of 1 to ${MOST_KEY_CHARACTERS} printable ASCII characters without a space or a line break around it`,
      'what `sida key new` prints',
    );
  }
  return value;
};

export function wholeNumber(least: number, most: number, example = '8'): Parser<number> {
  return (value) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= least && number <= most)) {
      throw new Expected(`a whole number from ${least} to ${most}`, example);
    }
    return number;
  };
}

export function number(least: number, most: number, example: string): Parser<number> {
  return (value) => {
    const parsed = /^\d*\.?\d+(e[+-]?\d+)?$/i.test(value.trim()) ? Number(value) : Number.NaN;
    if (parsed >= least && parsed <= most) return parsed;
    throw new Expected(`a number from ${least} to ${most}`, example);
  };
}

export function wholeNumberOrNone(least: number, most: number, example: string): Parser<number | 'none'> {
  const whole = wholeNumber(least, most);
  return (value) => {
    if (value === 'none') return value;
    try {
      return whole(value);
    } catch {
      throw new Expected(`a whole number from ${least} to ${most}, or none`, example);
    }
  };
}

/** `auto` means that the program chooses. */
export function orAuto<T>(parser: Parser<T>): Parser<T | 'auto'> {
  return (value) => {
    if (value === 'auto') return value;
    try {
      return parser(value);
    } catch (error) {
      if (!(error instanceof Expected)) throw error;
      throw new Expected(`auto, or ${error.what}`, error.example);
    }
  };
}

/** `reasons` explains why values that a user may try are not accepted. */
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

/** Checks a size or a share, and keeps its text, because the bytes of a share depend on the model. */
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

/** Parses a rate such as `12GB/s` into bytes per second. 0 means no limit. */
export const bandwidth: Parser<number> = (value) => {
  const parsed = parseBytes(value.trim().replace(/\/s$/i, ''));
  if (parsed === undefined) throw new Expected('a rate in bytes per second, or 0 for none', '12GB/s');
  return parsed;
};

const TIME_UNITS: Record<string, number> = {
  us: 0.001,
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
};

/**
 * Parses a time such as `30s`, `500ms`, `20us` or `2m` into milliseconds. A plain number other than 0 has `plainUnit`;
 * without one it is refused, since some would mean seconds and others milliseconds.
 */
export function duration(leastMs: number, mostMs: number, plainUnit = ''): Parser<number> {
  return (value) => {
    const match = /^(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]{0,3})$/i.exec(value.trim());
    const number = Number(match?.[1]);
    const plain = number === 0 ? 'ms' : plainUnit;
    const ms = number * (TIME_UNITS[match?.[2]?.toLowerCase() || plain] ?? Number.NaN);
    if (!(ms >= leastMs && ms <= mostMs)) {
      throw new Expected(`a time from ${leastMs}ms to ${mostMs / 1000}s`, '30s or 500ms');
    }
    return ms;
  };
}

/** Splits the text at commas and parses each item with `item`. */
export function list<T>(item: Parser<T>): Parser<T[]> {
  return (value) => value.split(',').map((part) => item(part.trim()));
}

/** A name that the Host header may carry, in lower case and without a port. */
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

/** URL of a Redis server: `redis://`, or `rediss://` for TLS. It may hold a user, a password and a database. */
export const redisUrl: Parser<string> = (value) => {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isRedis = url !== undefined && ['redis:', 'rediss:'].includes(url.protocol) && url.hostname !== '';
  // A password with an unescaped slash, number sign or question mark would end the host early.
  if (!isRedis || !/^(\/\d*)?$/.test(url.pathname) || `${url.search}${url.hash}`.includes('@')) {
    throw new Expected(
      'the URL of a Redis server, with special characters of a password written as %XX',
      'redis://127.0.0.1:6379 or redis://:p%2Fq@127.0.0.1:6379/1',
    );
  }
  return value;
};

export const httpUrl: Parser<string> = (value) => {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new Expected('the URL of a server', 'http://127.0.0.1:8000/v1');
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

/** Host and port, as in `10.0.0.6:7500` or `[::1]:7500`. */
export function hostAndPort(leastPort: number): Parser<{ host: string; port: number }> {
  return (value) => {
    const match = /^(\[.*\]|[^[\]:]+):(\d{1,5})$/.exec(value.trim());
    const port = Number(match?.[2] ?? Number.NaN);
    if (match === null || !(port >= leastPort && port <= 65535))
      throw new Expected('a host and a port', '10.0.0.6:7500');
    return { host: address(match[1]!), port };
  };
}

/** Whether only this machine can reach `host`. */
export function isLoopback(host: string): boolean {
  return (
    host.toLowerCase() === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
  );
}
