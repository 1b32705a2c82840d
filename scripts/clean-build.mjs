// Removes what the TypeScript compiler made, so that files of deleted sources do not stay.
import { rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
for (const built of ['dist', 'bundle']) rmSync(join(root, built), { recursive: true, force: true });
rmSync(join(root, 'build/tsconfig.tsbuildinfo'), { force: true });
