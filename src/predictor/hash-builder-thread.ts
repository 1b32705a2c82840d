/** Thread entry: runs the builder loop until the process ends. */
import { runHashBuilder } from './hash-builder.js';

await runHashBuilder();
