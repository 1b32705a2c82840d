/** Python's `strftime`, in English. */

const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

const DIRECTIVES: Record<string, (date: Date) => string | number> = {
  Y: (date) => date.getFullYear(),
  y: (date) => two(date.getFullYear() % 100),
  m: (date) => two(date.getMonth() + 1),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  f: (date) => String(date.getMilliseconds() * 1000).padStart(6, '0'),
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  B: (date) => MONTHS[date.getMonth()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  h: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  A: (date) => DAYS[date.getDay()]!,
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  w: (date) => date.getDay(),
  u: (date) => date.getDay() || 7,
  j: (date) => String(dayOfYear(date)).padStart(3, '0'),
  Z: () => '',
  z: () => '',
  s: (date) => Math.floor(date.getTime() / 1000),
  n: () => '\n',
  t: () => '\t',
  '%': () => '%',
};

const COMBINED: Record<string, string> = {
  F: '%Y-%m-%d',
  T: '%H:%M:%S',
  R: '%H:%M',
  D: '%m/%d/%y',
  c: '%a %b %e %H:%M:%S %Y',
  x: '%m/%d/%y',
  X: '%H:%M:%S',
  r: '%I:%M:%S %p',
};

/** `-` leaves out zeros and spaces at the beginning. Directives that it does not know stay as they are. */
export function strftime(format: string, date: Date): string {
  const whole = format.replace(/%([FTRDcxXr])/g, (_, name: string) => COMBINED[name]!);
  return whole.replace(/%(-?)([a-zA-Z%])/g, (found, short: string, name: string) => {
    const text = DIRECTIVES[name]?.(date);
    if (text === undefined) return found;
    return short === '' ? String(text) : String(text).replace(/^[0 ]+(?=\d)/, '');
  });
}

function two(number: number): string {
  return String(number).padStart(2, '0');
}

function dayOfYear(date: Date): number {
  const day = (month: number, at: number) => Date.UTC(date.getFullYear(), month, at);
  return Math.round((day(date.getMonth(), date.getDate()) - day(0, 0)) / 86_400_000);
}
