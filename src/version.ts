import { createRequire } from 'node:module';

/** The version of package.json, which stands one folder up, both of the sources and of the build. */
export const VERSION: string = createRequire(import.meta.url)('../package.json').version;
