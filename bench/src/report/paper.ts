/**
 * Numbers of other papers, as printed there, each with its source. What is not here could not be looked up and is not
 * guessed.
 */

export const SIDA = 'SiDA-MoE (Du et al., MLSys 2024, arXiv:2310.18859)';
export const TOWARDS =
  '"Towards MoE Deployment" (Huang et al., 2023; NeurIPS 2024 as "Toward Efficient Inference for Mixture of Experts")';
export const ELEPHANTS = '"Who Says Elephants Can\'t Run" (Kim et al., 2022, arXiv:2211.10017)';

/** Per cent. Table 5: top-3 hash hits. */
export const PAPER_HITS: Record<string, Record<string, number>> = {
  'Switch-base-8': { sst2: 99.0, mrpc: 97.41, multirc: 91.74 },
  'Switch-base-128': { sst2: 98.78, mrpc: 98.65, multirc: 90.49 },
};

/**
 * Per cent. Table 4: accuracy on SST-2, F1 on MRPC and MultiRC; tables route to 1 expert on SST-2, to 3 on the others.
 */
export const PAPER_FIDELITY: Record<
  string,
  Record<'exact' | 'predicted' | 'fidelity', Record<string, number>>
> = {
  'Switch-base-8': {
    exact: { sst2: 92.2, mrpc: 89.14, multirc: 56.7 },
    predicted: { sst2: 90.59, mrpc: 86.91, multirc: 56.11 },
    fidelity: { sst2: 98.25, mrpc: 97.49, multirc: 98.95 },
  },
  'Switch-base-128': {
    exact: { sst2: 93.57, mrpc: 89.66, multirc: 59.95 },
    predicted: { sst2: 87.04, mrpc: 83.01, multirc: 55.49 },
    fidelity: { sst2: 93.02, mrpc: 92.59, multirc: 92.56 },
  },
};

/** Table 3: perplexity on C4, with the model's routers and with predicted routing. */
export const PAPER_PERPLEXITY: Record<string, [exact: number, predicted: number]> = {
  'Switch-base-8': [6.68, 18.49],
  'Switch-base-64': [4.93, 11.84],
  'Switch-base-128': [4.86, 11.73],
  'Switch-base-256': [4.59, 8.11],
};

/** SiDA-MoE's claims, on SST-2 where a data set is named. */
export const HEADLINES = [
  { what: 'throughput over the baseline, SST-2, Switch-base-128', value: '2.60×', model: 'switch-base-128' },
  { what: 'throughput over the baseline, SST-2, Switch-base-256', value: '3.93×', model: 'switch-base-256' },
  { what: 'latency, share of the baseline, at best', value: '28 %', model: undefined },
  { what: 'device memory saved, at most', value: '80 %', model: undefined },
] as const;

/** Of the abstract of "Who Says Elephants Can't Run". */
export const ELEPHANTS_CLAIMS = {
  throughput: 'up to 26×',
  size: 'almost one eighth of the float32 model, with 4-bit experts',
};
