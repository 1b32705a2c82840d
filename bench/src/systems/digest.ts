/** The answers of a run: a digest of their bits, and the label that each sentence got. */
import { createHash } from 'node:crypto';

/** A label is one letter or digit. */
const MOST_LABELS = 36;

export function answersOf(
  scores: readonly (readonly number[])[],
  right: readonly number[],
): { digest: string; answers: string; rightLabels: number } {
  const digest = createHash('sha256');
  let rightLabels = 0;
  let answers = '';
  scores.forEach((own, i) => {
    digest.update(Float64Array.from(own));
    const best = own.indexOf(Math.max(...own));
    answers += best.toString(MOST_LABELS);
    if (best === right[i]) rightLabels += 1;
  });
  return { digest: digest.digest('hex'), answers, rightLabels };
}
