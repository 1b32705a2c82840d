import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { REPO } from './sida-process.js';

const SHARED = '../shared/oracle/fixtures';

/** The tiny checkpoint `name`, of the repository or of the full set beside it; undefined when neither has it. */
export function oracleFixture(name: string): string | undefined {
  return ['test/fixtures', SHARED].map((folder) => join(REPO, folder, name)).find((path) => existsSync(path));
}

/** Says which test is skipped for want of the fixture. */
export function sayMissing(test: string, name: string): void {
  console.warn(`SKIPPED: ${test}, ${SHARED}/${name} does not exist`);
}
