import { createHash } from 'node:crypto';
import type { AnswerAbout } from '../task.js';

/** The id of a part of an answer. A repeated run of the same job gives the same ids. */
export function partId(
  prefix: string,
  { id, createdMs }: Pick<AnswerAbout<object>, 'id' | 'createdMs'>,
  ...part: number[]
): string {
  const hash = createHash('sha256').update(JSON.stringify([prefix, id, createdMs, ...part]));
  return `${prefix}_${hash.digest('hex').slice(0, 24)}`;
}
