/** What became of the jobs that a worker was given by BullMQ or by other workers. */

/**
 * `here`: not passed on, since others could do no better, or nobody could name its experts; `passed` on; `returned`: offered
 * to another worker, which did not take it; `received` from others.
 */
export const PLACEMENT_FATES = ['here', 'passed', 'returned', 'received'] as const;

export type PlacementStats = Record<(typeof PLACEMENT_FATES)[number], number>;
