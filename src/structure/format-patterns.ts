/** Patterns that zod writes beside a format. They say exactly what it means by the format. */
import { regexes } from 'zod/v4/core';

const PRECISIONS = [undefined, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((precision) => ({
  ...(precision !== undefined && { precision }),
}));
const ZONES = [{}, { offset: true }, { local: true }, { offset: true, local: true }];

const PATTERNS: Readonly<Record<string, readonly RegExp[]>> = {
  date: [regexes.date],
  time: PRECISIONS.map(regexes.time),
  'date-time': PRECISIONS.flatMap((precision) =>
    ZONES.map((zone) => regexes.datetime({ ...precision, ...zone })),
  ),
  duration: [regexes.duration, regexes.extendedDuration],
  email: [regexes.email, regexes.html5Email, regexes.rfc5322Email, regexes.unicodeEmail],
  hostname: [regexes.hostname, regexes.domain],
  ipv4: [regexes.ipv4],
  ipv6: [regexes.ipv6],
  uuid: [regexes.guid, ...[undefined, 1, 2, 3, 4, 5, 6, 7, 8].map((version) => regexes.uuid(version))],
};

const KNOWN = new Map(
  Object.entries(PATTERNS).map(([format, all]) => [format, new Set(all.map(({ source }) => source))]),
);

export function isOfGenerator(format: unknown, pattern: unknown): boolean {
  return KNOWN.get(String(format))?.has(String(pattern)) ?? false;
}
