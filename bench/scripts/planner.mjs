// What do planning and choosing victims cost a decode step of a large model? Recorded routing of a generation runs
// through the expert store without weights, with the tables of each step and without, and every part is timed.
import { basename } from 'node:path';
import { EVICTION_POLICIES } from '../../dist/inference/eviction/index.js';
import { NeedCalibration } from '../../dist/inference/need-calibration.js';
import { correctedPass, planPass } from '../../dist/inference/pass-planner.js';
import { loadAddon } from '../../dist/native/addon.js';
import { openTrace } from '../dist/replay/open-trace.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';
import { median, medians } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/planner.mjs --trace FILE [--cache 10%,25%,50%] [--warm 16] [--rounds 5] [--quick]
FILE is a route_trace CSV, gzipped or not. The result is bench/results/planner.json: milliseconds of a step for the
snapshot of the experts, the plan, the store's choice of victims, and learning from what was needed.`;

const {
  trace: file,
  cache,
  warm,
  rounds,
  quick,
} = scriptOptions(HELP, {
  trace: undefined,
  cache: '10%,25%,50%',
  warm: '16',
  rounds: '5',
  quick: false,
});
if (file === undefined) throw new Error('--trace FILE is required');
const trace = await openTrace(file);
const { experts: layerExperts } = trace;
const experts = trace.layers.length * layerExperts;
const steps = trace.batches.flatMap(({ passes }) => passes).filter(({ phase }) => phase === 'decode');
const PARTS = ['snapshot', 'plan', 'victims', 'learn'];

/** The needs of a step as tables that are right but not sure, so that nothing is left out. */
function forecastOf({ visits }) {
  return visits.map((ids) => {
    const firstId = ids[0] - (ids[0] % layerExperts);
    const need = new Float32Array(layerExperts).fill(0.01);
    for (const id of ids) need[id - firstId] = 0.97;
    return { firstId, need };
  });
}

/** Milliseconds of each part, a step. */
function measure(slots, tables) {
  const store = new (loadAddon().WeightlessStore)({ experts, layerExperts, slots, loadsInFlight: 4 });
  const calibration = new NeedCalibration(experts);
  const policy = EVICTION_POLICIES['farthest-next-use'];
  const times = [];
  let loads = 0;
  for (const [at, step] of steps.entries()) {
    const own = tables ? forecastOf(step) : [];
    const marks = [performance.now()];
    const residency = store.residency();
    marks.push(performance.now());
    const plan = planPass(correctedPass({ own, behind: [] }, calibration), [], { residency, policy });
    marks.push(performance.now());
    store.startPass(plan);
    const visited = step.visits.map((ids) => store.visit(Uint32Array.from(ids)));
    marks.push(performance.now());
    for (const [layer, visit] of own.entries()) {
      const needed = new Uint8Array(layerExperts);
      for (const id of step.visits[layer]) needed[id - visit.firstId] = 1;
      calibration.learn(visit, needed);
    }
    marks.push(performance.now());
    if (at < Number(warm)) continue;
    for (const found of visited) loads += found === null ? 0 : found.demanded.length;
    times.push(Object.fromEntries(PARTS.map((part, i) => [part, marks[i + 1] - marks[i]])));
  }
  return { loads: loads / times.length, ...medians(times) };
}

const rows = cache.split(',').flatMap((share) => {
  const slots = Math.round((experts * Number.parseFloat(share)) / 100);
  return [false, true].map((tables) => {
    const runs = Array.from({ length: Number(rounds) }, () => measure(slots, tables));
    const row = { cache: share, slots, tables, ...medians(runs) };
    console.error(JSON.stringify(row));
    return row;
  });
});
const needs = steps.map(({ visits }) => visits.reduce((all, ids) => all + ids.length, 0));
writeResult(
  'planner',
  {
    question: 'What do planning and choosing victims cost a decode step?',
    ...scriptProvenance(),
    ...{ trace: basename(file), model: trace.model, experts, layers: trace.layers.length },
    ...{ steps: steps.length - Number(warm), rounds: Number(rounds), needsPerStep: median(needs), rows },
  },
  quick,
);
