/** Items in batches of `size`, the last one shorter where they do not divide. */
export function groupsOf<T>(items: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let begin = 0; begin < items.length; begin += size) groups.push(items.slice(begin, begin + size));
  return groups;
}
