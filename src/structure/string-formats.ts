/** Formats of JSON schemas' strings, as patterns. */

const DAY =
  '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))';
const DATE = `(?:[12]\\d{3}-${DAY})`;
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:0\\d|1[0-3]):[0-5]\\d)';
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?';
const HOST = `${LABEL}(?:\\.${LABEL}){0,4}`;
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
/** Parts of an address of IPv6. `::` stands for the parts that are left out. */
const PART = '[0-9a-f]{1,4}';
const shortened = Array.from({ length: 6 }, (_, at) => `(?:${PART}:){1,${6 - at}}(?::${PART}){1,${at + 1}}`);
const IPV6 = [`(?:${PART}:){7}${PART}`, `(?:${PART}:){1,7}:`, ...shortened, `:(?::${PART}){1,7}`, '::'].join(
  '|',
);

/** A duration of RFC 3339: a smaller unit follows only the next larger one. */
const COUNT = '\\d{1,6}';
const MINUTES = `${COUNT}M(?:${COUNT}S)?`;
const CLOCK = `T(?:${COUNT}H(?:${MINUTES})?|${MINUTES}|${COUNT}S)`;
const MONTHS = `${COUNT}M(?:${COUNT}D)?`;
const DAYS = `(?:${COUNT}Y(?:${MONTHS})?|${MONTHS}|${COUNT}D)(?:${CLOCK})?`;

export const STRING_FORMATS: Record<string, string> = {
  date: `^${DATE}$`,
  time: `^${TIME}$`,
  'date-time': `^${DATE}T${TIME}$`,
  duration: `^P(?:${DAYS}|${CLOCK}|${COUNT}W)$`,
  email: `^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,3}@${HOST}\\.[a-z]{2,12}$`,
  hostname: `^${HOST}$`,
  ipv4: `^${BYTE}(?:\\.${BYTE}){3}$`,
  ipv6: `^(?:${IPV6})$`,
  uri: `^https?://${HOST}(?:/[A-Za-z0-9_.~-]{0,40}){0,8}$`,
  uuid: '^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
};
