// The collectives of the seed papers over Debian's Open MPI, all ranks on this machine: one MoE layer by padded and
// two-phase all-to-all ("Towards MoE Deployment"), by hierarchical all-to-all and slices (DeepSpeed-MoE). Then the load
// of the busiest share when experts are placed by recorded routing ("Towards MoE Deployment", section VII).
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  busiestPart,
  loadsOf,
  placeAntiCorrelated,
  placeByIndex,
  placeGreedily,
} from '../../dist/placement/place-experts.js';
import { randomOf, shuffle } from '../../dist/predictor/random.js';
import { layerChoices } from '../../dist/trace/layer-choices.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { tracedModel } from '../dist/support/routing-traces.js';
import { optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { mean } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/collectives.mjs [--ranks 2,4] [--tokens 64,512] [--width 256] [--hidden 512] [--rounds 15]
  [--shares 2,3,4] [--batches 1,8,64] [--quick (--rounds 1 --ranks 2 --tokens 64)]
Builds bench/mpi/collectives.cc with mpicxx. Routing is uniform, skewed, and recorded of the bundled models; the first
half of a record places the experts, and the second is measured. The result is bench/results/collectives.json.`;

const options = optionsOf(HELP);
const { width, hidden, rounds, quick } = options;
const numbers = (name) => String(options[name]).split(',').map(Number);
const folder = scratchDirectory();
const [EXPERTS, TOP_K] = [32, 2];
const TRANSPORTS = { 'shared memory': 'self,vader', 'TCP on loopback': 'self,tcp' };

/** Different experts for each token, each as probable as its weight among those that are left. */
function drawn(weightOf) {
  const random = randomOf(1);
  const weights = shuffle([...Array(EXPERTS).keys()].map(weightOf), random);
  return Array.from({ length: Math.max(...numbers('tokens')) }, () => {
    const keys = weights.map((weight, expert) => [random() ** (1 / weight), expert]);
    return keys
      .sort(([a], [b]) => b - a)
      .slice(0, TOP_K)
      .map(([, expert]) => expert);
  }).flat();
}

/** What each way through the layer costs, a line each. */
function measure(program, { choices, experts, topK }, tokens, ranks, transport) {
  const file = join(folder, 'routes');
  writeFileSync(file, Uint16Array.from(choices.slice(0, tokens * topK)));
  const mpi = words`--oversubscribe --mca btl ${transport} --mca btl_tcp_if_include lo --mca mpi_yield_when_idle 1`;
  const given = words`-n ${ranks} ${program} ${file} ${tokens} ${topK} ${experts} ${width} ${hidden} ${rounds}`;
  const env = { ...process.env, OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
  const text = execFileSync('mpirun', [...mpi, ...given], { env, encoding: 'utf8' });
  return text.trim().split('\n').map(JSON.parse);
}

/** Mean over the layers of the busiest share's part of the choices in the second half of a record. */
function placements(name, { experts, topK, layers }) {
  return numbers('batches').flatMap((batchTokens) =>
    numbers('shares').map((shares) => {
      const parts = layers.map((choices) => {
        const half = Math.floor(choices.length / topK / 2) * topK;
        const loads = (part) => loadsOf(part, { experts, topK, batchTokens });
        const [history, measured] = [loads(choices.slice(0, half)), loads(choices.slice(half))];
        const ways = [
          placeByIndex(experts, shares),
          placeGreedily(history, shares),
          placeAntiCorrelated(history, shares),
        ];
        return ways.map((placement) => busiestPart(placement, shares, measured));
      });
      const [index, greedy, antiCorrelated] = [0, 1, 2].map((way) => mean(parts.map((part) => part[way])));
      return { model: name, layers: layers.length, batchTokens, shares, index, greedy, antiCorrelated };
    }),
  );
}

const recorded = {};
for (const name of ['switch-words', 'switch-mini', 'olmoe-mini'])
  recorded[name] = await layerChoices(await tracedModel(name, folder));
const routings = {
  uniform: { experts: EXPERTS, topK: TOP_K, choices: drawn(() => 1) },
  skewed: { experts: EXPERTS, topK: TOP_K, choices: drawn((place) => 1 / (place + 1)) },
  ...Object.fromEntries(
    ['switch-words', 'olmoe-mini'].map((name) => [name, { ...recorded[name], choices: recorded[name].layers[1] }]),
  ),
};
const runs = [];
const missing = { mpicxx: 'libopenmpi-dev', mpirun: 'openmpi-bin' };
const lacking = Object.keys(missing).filter((name) => spawnSync(name, ['--version']).error);
if (lacking.length > 0) console.error(`SKIPPED: apt-get install ${lacking.map((name) => missing[name]).join(' ')}`);
else {
  const program = join(folder, 'collectives');
  execFileSync('mpicxx', words`-std=c++20 -O3 -march=native -DOMPI_SKIP_MPICXX -o ${program} bench/mpi/collectives.cc`);
  for (const [routing, own] of Object.entries(routings))
    for (const tokens of numbers('tokens'))
      for (const ranks of numbers('ranks'))
        for (const [transport, layer] of Object.entries(TRANSPORTS)) {
          console.error(`${routing}, ${tokens} tokens, ${ranks} ranks, ${transport}`);
          const ways = measure(program, own, tokens, ranks, layer);
          runs.push({ routing, experts: own.experts, topK: own.topK, tokens, ranks, transport, ways });
        }
}
writeResult(
  'collectives',
  {
    question: 'What do the collectives of the seed papers cost, and what does placement by use gain?',
    ...scriptProvenance(),
    ...{ width, hidden, rounds },
    control: 'every way gives the layer of one process, within float32 rounding',
    runs,
    placements: Object.entries(recorded).flatMap(([name, own]) => placements(name, own)),
  },
  quick,
);
