// Loaded into a server under test, with --expose-gc: SIGUSR2 collects garbage, so that what memory is left is held by
// something.
import { isMainThread } from 'node:worker_threads';

if (isMainThread) process.on('SIGUSR2', () => globalThis.gc());
