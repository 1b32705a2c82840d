/** Byte sizes as people write them: `2GiB`, `2Gi`, `2G` (powers of 1024), `700MB` (powers of 1000), a number. */

const UNITS: Record<string, number> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  ...Object.fromEntries(
    ['k', 'm', 'g', 't'].flatMap((unit, i) =>
      ['', 'i', 'ib'].map((ending) => [unit + ending, 1024 ** (i + 1)]),
    ),
  ),
};

/** Parses a size such as `2GiB`, `700MB`, `1.5GiB` or `1048576` into bytes. Undefined for any other text. */
export function parseBytes(text: string): number | undefined {
  const match = /^(\d{1,16}(?:\.\d{1,9})?)\s*([a-z]{0,3})$/i.exec(text.trim());
  if (match === null) return undefined;
  const unit = UNITS[match[2]!.toLowerCase()];
  if (unit === undefined) return undefined;
  const bytes = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Parses a share such as `50%` into a fraction above 0 and at most 1. Undefined for any other text. */
export function parseShare(text: string): number | undefined {
  const match = /^(\d{1,3}(?:\.\d{1,9})?)\s*%$/.exec(text.trim());
  if (match === null) return undefined;
  const share = Number(match[1]) / 100;
  return share > 0 && share <= 1 ? share : undefined;
}

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a size such as `1.50 GiB`, with at least three significant digits. Below 1 KiB it shows whole bytes. */
export function formatBytes(bytes: number): string {
  const { value, digits, unit } = scaled(bytes);
  return `${value.toFixed(digits)} ${unit}`;
}

/** As formatBytes, and never less than `bytes`: who gives the size that is shown gives enough. */
export function formatLeast(bytes: number): string {
  const { value, digits, unit } = scaled(bytes);
  return `${(Math.ceil(value * 10 ** digits) / 10 ** digits).toFixed(digits)} ${unit}`;
}

function scaled(bytes: number) {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return { value, digits, unit: BINARY[unit]! };
}
