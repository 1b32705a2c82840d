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
  /** Bytes of the needed experts that must be loaded. */
  bytes: Quantiles;
  firstSeconds: Quantiles;
  seconds: Quantiles;
  /** Part of the seconds: until its first pass begins. */
  queueSeconds: number;
  /** What it would take if nothing else ran. Waiting requests are ordered by it. */
  aloneSeconds: number;
  /** Jobs that wait or run before it. */
  jobsAhead: number;
  /** Recent answers that the quantiles of seconds rest on. Without any, they rest on the model's shape. */
  measured: number;
}

/** Of the least squares z = a · x + b · y: the sums of x · x, x · y, y · y, x · z and y · z. */
export type Fit = [number, number, number, number, number];

/** Sums over the passes of one kind, where recent passes weigh more. */
export interface PassSums {
  passes: number;
  needed: number;
  missed: number;
  stallSeconds: number;
  /** The logarithm of how many tokens of even routing need as many experts, by a constant and that of the tokens. */
  spread: Fit;
  /** The share of misses, of the experts needed, by a constant and by the needed share of all experts. */
  misses: Fit;
  /** Seconds by bytes read and by tokens, all divided by the seconds. Waits for experts are not part of them. */
  time: Fit;
}

/** What the inference thread has measured. */
export interface PassRates {
  /** By `passKind` of src/quote/pass-rates.ts. */
  sums: PassSums[];
  slots: number;
}
