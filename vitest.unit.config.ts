import { defineConfig } from 'vitest/config';

const setup = { setupFiles: 'test/support/seed.ts', testTimeout: 60_000 };
const MOCKED = '**/*.mocked.test.ts';

/** `npm run test:unit`: tests that start no process. They share their modules, which halves their time. */
export default defineConfig({
  test: {
    maxWorkers: '100%',
    projects: [
      {
        test: {
          ...setup,
          name: 'shared',
          isolate: false,
          include: ['test/unit/**/*.test.ts', 'bench/test/**/*.test.ts'],
          exclude: ['bench/test/integration/**', MOCKED],
        },
      },
      // A mock of a module must not reach the tests that share theirs.
      { test: { ...setup, name: 'mocked', include: [`test/unit/${MOCKED}`] } },
    ],
  },
});
