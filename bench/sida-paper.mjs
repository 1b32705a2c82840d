// Numbers of SiDA-MoE (Du et al., MLSys 2024, arXiv 2310.18859), as printed there, in per cent.

/** Table 5: top-3 hash hits. */
export const PAPER_HITS = {
  'Switch-base-8': { sst2: 99.0, mrpc: 97.41, multirc: 91.74 },
  'Switch-base-128': { sst2: 98.78, mrpc: 98.65, multirc: 90.49 },
};

/** Table 4: accuracy on SST-2, F1 on MRPC and MultiRC; tables route to 1 expert on SST-2, to 3 on the others. */
export const PAPER_FIDELITY = {
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
export const PAPER_PERPLEXITY = {
  'Switch-base-8': [6.68, 18.49],
  'Switch-base-64': [4.93, 11.84],
  'Switch-base-128': [4.86, 11.73],
  'Switch-base-256': [4.59, 8.11],
};
