/**
 * `*` in a pattern stands for anything, slashes included; a pattern without one names a measurement or its beginning.
 */
export function fitsName(pattern: string, name: string): boolean {
  const escaped = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${escaped.join('.*')}(/.*)?$`).test(name);
}
