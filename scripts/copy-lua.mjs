// Copies the Lua scripts of src/ beside the compiled files that read them, which the compiler does not do.
import { cpSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
for (const file of readdirSync(join(root, 'src'), { recursive: true })) {
  if (file.endsWith('.lua')) cpSync(join(root, 'src', file), join(root, 'dist', file));
}
