// What does each policy load over recorded routing, beside Belady's rule? Figure 12 of "Towards MoE Deployment", and
// how far the planner with true tables is from the optimum. No model runs and transfers take no time.
import { compare } from '../dist/replay/compare.js';
import { openTrace } from '../dist/replay/open-trace.js';
import { MINI_DIRECTORY } from '../dist/support/paths.js';
import { sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { recordedTraces, tracedModel } from '../dist/support/routing-traces.js';
import { optionsOf, scratchDirectory, writeResult } from '../dist/support/script.js';

const HELP = `node bench/scripts/replay.mjs [--traces DIR] [--only NAMES] [--cache 5,10,20,25,50]
  [--lookahead 0,1,4,16] [--quick]
NAMES are such as qwen,switch-mini. DIR holds route_trace CSV files, gzipped or not; switch-mini's routing of SST-2 is traced here. --cache: percent of all
experts. The result is bench/results/replay.json.`;

const { traces, only, cache, lookahead, quick } = optionsOf(HELP);
const wanted = ({ name }) => only === undefined || only.split(',').includes(name);

async function ownTrace() {
  const { plan } = JSON.parse(await sida(['plan', MINI_DIRECTORY, '--json']));
  return openTrace(await tracedModel('switch-mini', scratchDirectory()), plan.slot);
}

const sources = [
  ...recordedTraces(traces).map(({ name, file }) => ({ name, open: () => openTrace(file) })),
  { name: 'switch-mini', open: ownTrace },
];
const reports = [];
for (const { name, open } of sources.filter(wanted)) {
  console.error(name);
  const shares = cache.split(',').map((percent) => Number(percent) / 100);
  reports.push({ name, ...compare(await open(), shares, lookahead.split(',').map(Number)) });
}
const question = 'What does each policy load over recorded routing?';
writeResult('replay', { question, ...scriptProvenance(), reports }, quick);
