import { defineConfig } from 'vitest/config';

/** On two cores, a third file computes while the others wait for processes and times. */
const maxWorkers = 3;
const seed = {
  setupFiles: 'test/support/seed.ts',
  maxWorkers,
  // What comes a second later on a busy machine is no fault.
  expect: { poll: { timeout: 30_000 } },
};
const tools = { globalSetup: 'test/support/install-tools.ts', hookTimeout: 300_000 };
const UNIT = ['test/unit/**/*.test.ts', 'bench/test/**/*.test.ts'];
const PROCESSES = [
  'test/integration/**/*.test.ts',
  'test/native/**/*.test.ts',
  'bench/test/integration/**/*.test.ts',
];
const MOCKED = '**/*.mocked.test.ts';

export default defineConfig({
  test: {
    projects: [
      // Tests that start no process share their modules, which halves their time.
      {
        test: {
          ...seed,
          name: 'unit',
          include: UNIT,
          exclude: [...PROCESSES, MOCKED],
          isolate: false,
          testTimeout: 60_000,
          sequence: { groupOrder: 0 },
        },
      },
      // A mock of a module must not reach the tests that share theirs.
      { test: { ...seed, name: 'mocked', include: [`test/unit/${MOCKED}`], testTimeout: 60_000 } },
      {
        test: {
          ...seed,
          ...tools,
          name: 'integration',
          include: PROCESSES,
          // Tests that start servers and trainings take minutes on a machine that is busy with other work.
          testTimeout: 180_000,
          sequence: { groupOrder: 1 },
        },
      },
      // Real processes and sockets, one fault at a time, minutes long: `npm run test:faults`.
      {
        test: {
          ...tools,
          name: 'faults',
          include: ['test/faults/**/*.fault.ts'],
          testTimeout: 600_000,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
