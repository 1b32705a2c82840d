/** Names, chooses and compares the element types of packed weights. */
import { z } from 'zod';
import type { ExpertDtype, PackFormats, WeightFormat } from '../native/addon-types.js';

/** Types that sida makes of any weights. */
export const MADE_DTYPES = ['f32', 'bf16', 'bf16c', 'int8', 'int4', 'mxfp4', 'q8_0', 'q4_0'] as const;
/** Types that sida only copies from files that have them. */
export const COPIED_DTYPES = [
  'q4_k',
  'q6_k',
  'q4_1',
  'q5_0',
  'q5_1',
  'q5_k',
  'q3_k',
  'q2_k',
  'iq4_nl',
  'iq4_xs',
  'iq2',
  'iq3_xxs',
  'iq3_s',
] as const;
export const EXPERT_DTYPES: readonly ExpertDtype[] = [...MADE_DTYPES, ...COPIED_DTYPES];
export const DENSE_DTYPES = EXPERT_DTYPES.filter((dtype) => dtype !== 'int4' && dtype !== 'bf16c');
export const GROUPS = [32, 64, 128] as const;
export const DEFAULT_GROUP = 64;

/** `auto` means the checkpoint's lossless types. A bare `int4` has groups of 64. */
export type FormatChoice = 'auto' | ExpertDtype | WeightFormat;

export interface FormatChoices {
  experts: FormatChoice;
  dense: FormatChoice;
}

export const expertFormatSchema = formatSchema(EXPERT_DTYPES);
export const denseFormatSchema = formatSchema(DENSE_DTYPES);

/** Schema of `{dtype, group?}` within an object that may have other fields. */
function formatSchema(dtypes: readonly ExpertDtype[]) {
  return z
    .object({ dtype: z.unknown(), group: z.unknown().optional() })
    .transform(({ dtype: name, group: size }, context): WeightFormat => {
      const refuse = (field: string, expected: string, found: unknown) => {
        const message = `expected ${expected}, found ${JSON.stringify(found) ?? 'none'}`;
        context.addIssue({ code: 'custom', path: [field], message });
        return z.NEVER;
      };
      const dtype = [...dtypes, 'mixed' as const].find((one) => one === name);
      if (dtype === undefined) return refuse('dtype', dtypes.join(', '), name);
      if (dtype !== 'int4')
        return size === undefined ? { dtype } : refuse('group', `none beside ${dtype}`, size);
      const group = GROUPS.find((one) => one === size);
      return group === undefined ? refuse('group', GROUPS.join(', '), size) : { dtype, group };
    });
}

export function resolveFormat(choice: FormatChoice, lossless: WeightFormat): WeightFormat {
  if (choice === 'auto') return lossless;
  if (typeof choice !== 'string') return choice;
  return choice === 'int4' ? { dtype: choice, group: DEFAULT_GROUP } : { dtype: choice };
}

export function resolveFormats({ experts, dense }: FormatChoices, lossless: PackFormats): PackFormats {
  return {
    experts: resolveFormat(experts, lossless.experts),
    dense: resolveFormat(dense, lossless.dense),
  };
}

/** Whether weights have codes with scales. */
export function isQuantized({ dtype }: WeightFormat): boolean {
  return !['f32', 'bf16', 'bf16c'].includes(dtype);
}

export function sameFormat(a: WeightFormat, b: WeightFormat): boolean {
  return a.dtype === b.dtype && a.group === b.group;
}

/** The name of a format in one word, such as `int4-g64`, for file names and messages. */
export function formatName({ dtype, group }: WeightFormat): string {
  return group === undefined ? dtype : `${dtype}-g${group}`;
}

/** The format as the arguments of `sida convert` after `--experts` or `--dense`. */
export function formatFlags({ dtype, group }: WeightFormat): string {
  if (dtype === 'mixed') return 'auto';
  return group === undefined ? dtype : `${dtype} --group ${group}`;
}
