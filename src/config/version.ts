import { createRequire } from 'node:module';

/** The version of package.json, which stands two folders up both in the sources and in the build. */
export const VERSION: string = createRequire(import.meta.url)('../../package.json').version;
