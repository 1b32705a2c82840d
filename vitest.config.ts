import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'bench/test/**/*.test.ts'],
    globalSetup: 'test/support/install-tools.ts',
    setupFiles: 'test/support/seed.ts',
    // Tests that start servers and trainings take minutes on a machine that is busy with other work.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    // Two servers at a time on two cores; more only makes each slower.
    maxWorkers: 2,
  },
});
