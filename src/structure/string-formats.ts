/** Formats of JSON schemas' texts, as patterns. */

const DAY =
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))';
const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:\\d{4}-${DAY}|${LEAP_YEAR}-02-29)`;
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)';
const [LETTER, INNER] = ['[A-Za-z0-9]', '[A-Za-z0-9-]'];
/** Two hyphens behind two letters would begin a label of Punycode, which few texts are. */
const LONGER = `${INNER}(?:${LETTER}${INNER}|-${LETTER})${INNER}{0,25}${LETTER}`;
const LABEL = `${LETTER}(?:${LETTER}|${INNER}{1,2}${LETTER}|${LONGER})?`;
const HOST = `${LABEL}(?:\\.${LABEL}){0,4}`;
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
/** Parts of an address of IPv6. `::` stands for the parts that are left out. */
const PART = '[0-9A-Fa-f]{1,4}';
const shortened = Array.from({ length: 6 }, (_, at) => `(?:${PART}:){1,${6 - at}}(?::${PART}){1,${at + 1}}`);
const IPV6 = [`(?:${PART}:){7}${PART}`, `(?:${PART}:){1,7}:`, ...shortened, `:(?::${PART}){1,7}`, '::'].join(
  '|',
);
const ATOM_CLASS = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
const ATOM = `${ATOM_CLASS}+`;
const SHORT_ATOM = `${ATOM_CLASS}{1,16}`;
/** The rest of a URI: xgrammar follows a class that repeats much faster than a choice that does. */
const URI_CLASS_ONE = "[A-Za-z0-9._~!$&'()*+,;=:@/?-]";
const URI_CLASS = `${URI_CLASS_ONE}*`;
const URI_REST = `${URI_CLASS}(?:%[0-9A-Fa-f]{2}${URI_CLASS})*`;
const SHORT_REST = `${URI_CLASS_ONE}{0,200}(?:%[0-9A-Fa-f]{2}${URI_CLASS_ONE}{0,20}){0,4}`;
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
    'date-time': `^${DATE}T${TIME}$`,
    duration: `^P(?:${DAYS}|${CLOCK}|${COUNT}W)$`,
    email: `^${ATOM}(?:\\.${ATOM})*@${HOST}$`,
    hostname: `^${HOST}$`,
    ipv4: `^${BYTE}(?:\\.${BYTE}){3}$`,
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

/** Narrower patterns of formats whose texts have no longest one: they hold within most bounds of the length. */
export const SHORT_FORMATS: ReadonlyMap<unknown, string> = new Map(
  Object.entries({
    email: `^${SHORT_ATOM}(?:\\.${SHORT_ATOM}){0,2}@${HOST}$`,
    uri: `^[A-Za-z][A-Za-z0-9+.-]{0,9}://[A-Za-z0-9.-]{1,60}(?::\\d{1,5})?(?:[/?]${SHORT_REST})?(?:#${URI_CLASS_ONE}{0,60})?$`,
  }),
);
