/** What lies below the device. */

export type LinkName = 'disk' | 'simulated-12GBps' | 'host';

export interface Link {
  name: LinkName;
  /** As charts and tables call it. */
  title: string;
  /** Options of `sida serve`. */
  flags: Record<string, string>;
  /** Bytes per second where it is simulated. */
  bandwidth?: number;
}

export const LINKS: Record<LinkName, Link> = {
  disk: { name: 'disk', title: 'disk', flags: { hostBudget: '0' } },
  'simulated-12GBps': {
    name: 'simulated-12GBps',
    title: 'simulated link, 12 GB/s',
    // All experts in host memory, so that the simulated link alone is what a transfer waits for.
    flags: { hostBudget: '100%', linkBandwidth: '12GB/s' },
    bandwidth: 12e9,
  },
  // The SiDA paper's setting: every expert in host memory, the device behind PCIe.
  host: { name: 'host', title: 'host memory', flags: { hostBudget: '100%' } },
};
