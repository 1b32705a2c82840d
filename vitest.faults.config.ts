import { defineConfig } from 'vitest/config';

/** The fault suite: real processes and sockets, one fault at a time, minutes long. `npm run test:faults`. */
export default defineConfig({
  test: {
    include: ['test/faults/**/*.fault.ts'],
    globalSetup: 'test/support/install-tools.ts',
    testTimeout: 600_000,
    hookTimeout: 300_000,
    maxWorkers: 1,
    fileParallelism: false,
  },
});
