/** Combines `--experts`, `--dense` and `--group` into the element types of a pack. */
import { DEFAULT_GROUP, type FormatChoices } from '../checkpoint/weight-format.js';
import type { ServeOptions } from './options.js';
import { UsageError } from './resolve.js';

export const WEIGHT_OPTIONS = ['experts', 'dense', 'group'] as const;

export function weightChoices({
  experts,
  dense,
  group,
}: Pick<ServeOptions, (typeof WEIGHT_OPTIONS)[number]>): FormatChoices {
  if (experts === 'int4') return { experts: { dtype: experts, group: group ?? DEFAULT_GROUP }, dense };
  if (group !== undefined) {
    throw new UsageError(
      `The "--group" option is ${group}, which only --experts int4 has: experts are ${experts} here`,
    );
  }
  return { experts, dense };
}
