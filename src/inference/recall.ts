/** Which recall of its tables a model's predictor is judged by. */

/**
 * How many of the names that a table gives a token are looked at: narrow and wide. Of a model whose routers choose one
 * expert, the first name and the first three; else as many as they choose, and twice as many.
 */
export function recallWidths(topK: number): { narrow: number; wide: number } {
  return topK === 1 ? { narrow: 1, wide: 3 } : { narrow: topK, wide: 2 * topK };
}
