/** The quote of a request: what it will cost, told before it runs. */

/** Half of all answers, and 90 % of them, are expected to take no more. */
export interface Quantiles {
  p50: number;
  p90: number;
}

export interface Quote {
  promptTokens: number;
  /** Of all choices together. */
  maxTokens: number;
  /** Experts that its passes need, each counted once a pass and layer. */
  experts: Quantiles;
  /** Bytes of those of them that must be loaded. */
  bytes: Quantiles;
  firstSeconds: Quantiles;
  seconds: Quantiles;
  /** Part of the seconds: until its first pass begins. */
  queueSeconds: number;
  /** Jobs that wait or run before it. */
  jobsAhead: number;
  /** Recent answers that the quantiles of seconds rest on. Without any, they rest on the model's shape. */
  measured: number;
}

/** Sums over the passes of one kind, where recent passes weigh more. */
export interface PassSums {
  passes: number;
  needed: number;
  missed: number;
  /** Experts needed beyond those of one token, and how many more there would be if routing were even. */
  moreNeeded: number;
  moreEven: number;
  stallSeconds: number;
  /**
   * Of the fit seconds = a · bytes + b · tokens: with x = bytes / seconds and y = tokens / seconds, the sums of x · x,
   * x · y, y · y, x and y. Waits for experts are not part of the seconds.
   */
  fit: [number, number, number, number, number];
}

/** What the inference thread has measured. */
export interface PassRates {
  /** By `passKind` of src/quote/pass-rates.ts. */
  sums: PassSums[];
  slots: number;
}
