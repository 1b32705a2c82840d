/** Formats of JSON schemas' texts, as patterns. */

const DAY =
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))';
const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:\\d{4}-${DAY}|${LEAP_YEAR}-02-29)`;
const FRACTION = '(?:\\.\\d{1,18})?';
const OFFSET = '[+-](?:[01]\\d|2[0-3]):[0-5]\\d';
const TIME = `(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d${FRACTION}(?:[Zz]|${OFFSET})|23:59:60${FRACTION}(?:[Zz]|[+-]00:00))`;
const [LETTER, INNER] = ['[A-Za-z0-9]', '[A-Za-z0-9-]'];
/** Two hyphens behind two letters would begin a label of Punycode, which few texts are. */
const LONGER = `${INNER}(?:${LETTER}${INNER}|-${LETTER})${INNER}{0,25}${LETTER}`;
const LABEL = `${LETTER}(?:${LETTER}|${INNER}{1,2}${LETTER}|${LONGER})?`;
const HOST = `${LABEL}(?:\\.${LABEL}){0,4}`;
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
/** Parts of an address of IPv6. `::` stands for the parts that are left out. */
const PART = '[0-9A-Fa-f]{1,4}';
const shortened = Array.from({ length: 6 }, (_, at) => `(?:${PART}:){1,${6 - at}}(?::${PART}){1,${at + 1}}`);
const IPV4 = `${BYTE}(?:\\.${BYTE}){3}`;
const withIpv4 = Array.from({ length: 5 }, (_, at) => `(?:${PART}:){1,${5 - at}}:(?:${PART}:){${at}}${IPV4}`);
const IPV6 = [
  ...[`(?:${PART}:){7}${PART}`, `(?:${PART}:){1,7}:`, ...shortened, `:(?::${PART}){1,7}`, '::'],
  ...[`(?:${PART}:){6}${IPV4}`, `::(?:${PART}:){0,5}${IPV4}`, ...withIpv4],
].join('|');
const ATOM_CLASS = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
const ATOM = `${ATOM_CLASS}+`;
/** The rest of a URI: xgrammar follows a class that repeats much faster than a choice that does. */
const URI_CLASS_ONE = "[A-Za-z0-9._~!$&'()*+,;=:@/?-]";
const URI_CLASS = `${URI_CLASS_ONE}*`;
const URI_REST = `${URI_CLASS}(?:%[0-9A-Fa-f]{2}${URI_CLASS})*`;
const URI_HOST = `(?:[A-Za-z0-9._~-]+|\\[(?:${IPV6})\\])`;
const URI_PATH = `(?://${URI_HOST}(?::\\d{1,5})?(?:[/?]${URI_REST})?|[A-Za-z0-9+]${URI_REST})`;
/** Steps of a JSON pointer, in which `~` begins an escape. */
const POINTER = '(?:/(?:[^/~]|~[01])*)*';

/** A duration of RFC 3339: a smaller unit follows only the next larger one. */
const COUNT = '\\d{1,6}';
const MINUTES = `${COUNT}M(?:${COUNT}S)?`;
const CLOCK = `T(?:${COUNT}H(?:${MINUTES})?|${MINUTES}|${COUNT}S)`;
const MONTHS = `${COUNT}M(?:${COUNT}D)?`;
const DAYS = `(?:${COUNT}Y(?:${MONTHS})?|${MONTHS}|${COUNT}D)(?:${CLOCK})?`;

export const STRING_FORMATS: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    date: `^${DATE}$`,
    time: `^${TIME}$`,
    'date-time': `^${DATE}[Tt]${TIME}$`,
    duration: `^P(?:${DAYS}|${CLOCK}|${COUNT}W)$`,
    email: `^${ATOM}(?:\\.${ATOM})*@${HOST}$`,
    hostname: `^${HOST}$`,
    ipv4: `^${IPV4}$`,
    ipv6: `^(?:${IPV6})$`,
    uri: `^[A-Za-z][A-Za-z0-9+.-]*:${URI_PATH}(?:#${URI_REST})?$`,
    'json-pointer': `^${POINTER}$`,
    'relative-json-pointer': `^(?:0|[1-9]\\d{0,9})(?:#|${POINTER})$`,
    uuid: '^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$',
  }),
);

/** Other formats of the standard. */
export const UNFOLLOWED_FORMATS: ReadonlySet<unknown> = new Set([
  ...['idn-email', 'idn-hostname', 'iri', 'iri-reference', 'regex', 'uri-reference', 'uri-template'],
]);

/**
 * Patterns of formats for texts that may be longer than `room`. Such a text may end behind each character from there
 * on, so its length can be counted apart from its pattern.
 */
export const COUNTED_FORMATS: ReadonlyMap<unknown, { pattern: string; room: number }> = new Map(
  Object.entries({
    uri: {
      pattern:
        `^[A-Za-z][A-Za-z0-9+.-]{0,9}://[A-Za-z0-9.-]{1,60}(?::\\d{1,5})?` +
        `(?:[/?](?:${URI_CLASS_ONE}{0,40}%[0-9A-Fa-f]{2}){0,2}${URI_CLASS})?(?:#${URI_CLASS})?$`,
      room: 200,
    },
  }),
);

/**
 * Narrower patterns of formats, whose texts are at most so long: with the length in its states, an automaton of all
 * texts would be too large.
 */
export const SHORT_FORMATS: ReadonlyMap<unknown, (most: number) => string | undefined> = new Map(
  Object.entries({
    email: (most: number) => {
      if (most < 16) return undefined;
      const [atom, label] = [Math.min(32, Math.floor(most / 6)), Math.min(28, Math.floor((most - 4) / 5))];
      const host = `${LETTER}(?:[A-Za-z0-9]{0,${label - 2}}${LETTER})?`;
      return `^${ATOM_CLASS}{1,${atom}}(?:\\.${ATOM_CLASS}{1,${atom}})?@${host}(?:\\.${host}){1,2}$`;
    },
    uri: (most: number) => {
      if (most < 48) return undefined;
      const [host, rest] = [
        Math.min(60, Math.floor((most - 21) / 3)),
        Math.min(360, 4 * Math.floor((most - 21) / 8)),
      ];
      const [all, few] = [`${URI_CLASS_ONE}{0,${rest / 2}}`, `${URI_CLASS_ONE}{0,${rest / 4 - 3}}`];
      const path = `[/?]${all}(?:%[0-9A-Fa-f]{2}${few}){0,2}`;
      return `^[A-Za-z][A-Za-z0-9+.-]{0,9}://[A-Za-z0-9.-]{1,${host}}(?::\\d{1,5})?(?:${path})?(?:#${few})?$`;
    },
  }),
);
