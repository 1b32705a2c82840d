// What do planning and choosing victims cost a decode step of a large model? Recorded routing of a generation runs
// through the expert store without weights, with the tables of each step and without, and every part is timed: the
// snapshot of the experts, the plan, the store's choice of victims, and learning from what was needed.
//   node bench/scripts/planner/planner.mjs --trace FILE [--cache 10%,25%,50%] [--warm 16] [--rounds 5] [--quick]
// A model with more experts or more needs a token costs as much more: the result says both.
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { EVICTION_POLICIES } from '../../../dist/inference/eviction/index.js';
import { NeedCalibration } from '../../../dist/inference/need-calibration.js';
import { correctedPass, planPass } from '../../../dist/inference/pass-planner.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { openTrace } from '../../dist/replay/open-trace.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { median } from '../../dist/support/statistics.js';

const { values } = parseArgs({
  options: {
    trace: { type: 'string' },
    cache: { type: 'string', default: '10%,25%,50%' },
    warm: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '5' },
    quick: { type: 'boolean', default: false },
  },
});
if (values.trace === undefined) throw new Error('--trace FILE is required');
const [warm, rounds] = [Number(values.warm), Number(values.rounds)];
const trace = await openTrace(values.trace, { onBytes: () => {} });
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
  const forecasts = steps.map(forecastOf);
  const times = Object.fromEntries(PARTS.map((part) => [part, []]));
  let loads = 0;
  for (const [at, { visits }] of steps.entries()) {
    const own = tables ? forecasts[at] : [];
    const marks = [performance.now()];
    const residency = store.residency();
    marks.push(performance.now());
    const plan = planPass(correctedPass({ own, behind: [] }, calibration), [], { residency, policy });
    marks.push(performance.now());
    store.startPass(plan);
    const visited = visits.map((ids) => store.visit(Uint32Array.from(ids)));
    marks.push(performance.now());
    for (const [layer, visit] of own.entries()) {
      const needed = new Uint8Array(layerExperts);
      for (const id of visits[layer]) needed[id - visit.firstId] = 1;
      calibration.learn(visit, needed);
    }
    marks.push(performance.now());
    if (at < warm) continue;
    for (const found of visited) loads += found === null ? 0 : found.demanded.length;
    for (const [i, part] of PARTS.entries()) times[part].push(marks[i + 1] - marks[i]);
  }
  return {
    loads: loads / (steps.length - warm),
    ...Object.fromEntries(PARTS.map((part) => [part, median(times[part])])),
  };
}

const rows = [];
for (const cache of values.cache.split(',')) {
  const slots = Math.round((experts * Number.parseFloat(cache)) / 100);
  for (const tables of [false, true]) {
    const runs = Array.from({ length: rounds }, () => measure(slots, tables));
    const row = Object.fromEntries(
      ['loads', ...PARTS].map((name) => [name, median(runs.map((run) => run[name]))]),
    );
    rows.push({ cache, slots, tables, ...row });
    console.error(JSON.stringify(rows.at(-1)));
  }
}
const needs = steps.reduce((sum, { visits }) => sum + visits.reduce((all, ids) => all + ids.length, 0), 0);
writeResult(
  'planner',
  {
    question: 'What do planning and choosing victims cost a decode step?',
    ...scriptProvenance(),
    ...{ trace: basename(values.trace), model: trace.model, experts, layers: trace.layers.length },
    ...{ steps: steps.length - warm, rounds, needsPerStep: needs / steps.length, rows },
  },
  values.quick,
);
