/** Links below the device, over which experts are loaded. */

export type LinkName = 'disk' | 'simulated-12GBps' | 'host';

interface Link {
  /** Name in charts and tables. */
  title: string;
  /** Options of `sida serve`. */
  flags: Record<string, string>;
}

export const LINKS: Record<LinkName, Link> = {
  disk: { title: 'disk', flags: { hostBudget: '0' } },
  'simulated-12GBps': {
    title: 'simulated link, 12 GB/s',
    // All experts are in host memory, so that a transfer waits for the simulated link alone.
    flags: { hostBudget: '100%', linkBandwidth: '12GB/s' },
  },
  // The SiDA paper's setting: every expert in host memory, the device behind PCIe.
  host: { title: 'host memory', flags: { hostBudget: '100%' } },
};
