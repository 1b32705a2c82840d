/** Where the product and the laboratory lie. */
const path = (relative: string) => new URL(relative, import.meta.url).pathname;

export const REPOSITORY = path('../../../');
/** The product's command line, as built. */
export const SIDA = path('../../../bundle/cli/main.js');
/** The laboratory's own, as built: TypeScript sources and builds lie at the same depth. */
export const LABORATORY = path('../../dist/main.js');
/** What SIDA_HASH_FUNCTION_MODULE names, for a server with true or with wrong tables. */
export const hashFunctionModule = (name: 'replay' | 'shuffled') => path(`../../dist/hash-functions/${name}.js`);
/** Records the routing of texts and their labels. */
export const LABEL_TRACE_PROCESS = path('../../dist/preparation/label-trace-process.js');
export const SCRIPTS = path('../../scripts/');
export const MODELS_DIRECTORY = path('../../../models');
export const MINI_DIRECTORY = path('../../../models/switch-mini');
/** SST-2's validation set, JSON lines. */
export const BUNDLED_SST2 = path('../../../test/data/sst2-validation.jsonl');
