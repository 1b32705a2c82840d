/**
 * The time that a pass is expected to take without a source, by its kind and its tokens. It is learned only from passes
 * without the source, so that both arms of a comparison are divided by the same scale, whatever sizes each has run.
 * Between the sizes that have run, the expectation is interpolated, so it needs no law of how time grows with tokens.
 */

/** Classes of sizes for each doubling of the tokens. Up to this number of tokens, every size is a class of its own. */
const CLASSES = 8;
/** Passes that a class remembers, about. */
const MEMORY = 64;

/** Means of the passes of one size class. */
interface Point {
  tokens: number;
  ms: number;
  passes: number;
}

export class PassExpectation {
  readonly #kinds = new Map<number, Map<number, Point>>();

  learn(kind: number, tokens: number, ms: number): void {
    const points = this.#points(kind);
    const size = sizeClass(tokens);
    const point = points.get(size);
    if (point === undefined) {
      points.set(size, { tokens, ms, passes: 1 });
      return;
    }
    point.passes = Math.min(point.passes + 1, MEMORY);
    point.tokens += (tokens - point.tokens) / point.passes;
    point.ms += (ms - point.ms) / point.passes;
  }

  /** Returns undefined for a size outside those that have run. */
  of(kind: number, tokens: number): number | undefined {
    const points = this.#points(kind);
    let below: Point | undefined;
    let above: Point | undefined;
    for (const point of points.values()) {
      if (point.tokens <= tokens && !(below !== undefined && below.tokens >= point.tokens)) below = point;
      if (point.tokens >= tokens && !(above !== undefined && above.tokens <= point.tokens)) above = point;
    }
    if (below === undefined || above === undefined) return points.get(sizeClass(tokens))?.ms;
    if (below === above) return below.ms;
    return below.ms + ((above.ms - below.ms) * (tokens - below.tokens)) / (above.tokens - below.tokens);
  }

  forget(): void {
    this.#kinds.clear();
  }

  #points(kind: number): Map<number, Point> {
    let points = this.#kinds.get(kind);
    if (points === undefined) {
      points = new Map();
      this.#kinds.set(kind, points);
    }
    return points;
  }
}

function sizeClass(tokens: number): number {
  return tokens <= CLASSES ? tokens : Math.round(CLASSES * Math.log2(tokens));
}
