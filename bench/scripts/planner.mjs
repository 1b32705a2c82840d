// What does planning cost between two native calls? Routing runs through the expert store without weights, with the
// tables of each pass and of those that wait behind it, and without, and every part is timed.
import { basename } from 'node:path';
import { EVICTION_POLICIES } from '../../dist/inference/eviction/index.js';
import { NeedCalibration } from '../../dist/inference/need-calibration.js';
import { correctedPass, correctedVisits, planPass } from '../../dist/inference/pass-planner.js';
import { PlanBuffers } from '../../dist/inference/plan-buffers.js';
import { UNKNOWN_LINK } from '../../dist/inference/residency-planner.js';
import { loadAddon } from '../../dist/native/addon.js';
import { openTrace } from '../dist/replay/open-trace.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';
import { median, medians } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/planner.mjs [--trace FILE] [--shape 12x128] [--cache 10%,25%,50%] [--waiting 4]
  [--warm 16] [--rounds 5] [--quick]
--trace: the decode steps of a route_trace CSV, gzipped or not; without it, sentences of 16 tokens with skewed routing
through a shape of layers x experts. --waiting: tables behind that of the pass. The result is bench/results/planner.json:
milliseconds of a pass for the snapshot of the experts, the plan, the store's choice of victims, and learning from what
was needed; and the processor's time of snapshot, plan and learning, which other processes do not lengthen.`;

const { trace, shape, cache, waiting, warm, rounds, quick } = scriptOptions(HELP, {
  trace: undefined,
  shape: '12x128',
  cache: '10%,25%,50%',
  waiting: '4',
  warm: '16',
  rounds: '5',
  quick: false,
});
/** Of the sentences. */
const PASSES = 512;
const { model, layers, layerExperts, steps } = await (trace === undefined ? sentences() : recorded());
const experts = layers * layerExperts;
const PARTS = ['snapshot', 'plan', 'victims', 'learn'];

async function recorded() {
  const { model, layers, experts, batches } = await openTrace(trace);
  const steps = batches.flatMap(({ passes }) => passes).filter(({ phase }) => phase === 'decode');
  return { model, layers: layers.length, layerExperts: experts, steps: steps.map(({ visits }) => visits) };
}

async function sentences() {
  const [layers, layerExperts] = shape.split('x').map(Number);
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const visit = (layer) => {
    const needed = new Set(Array.from({ length: 16 }, () => Math.floor(layerExperts * random() ** 2)));
    return [...needed].sort((a, b) => a - b).map((index) => layer * layerExperts + index);
  };
  const steps = Array.from({ length: PASSES + Number(warm) }, () =>
    Array.from({ length: layers }, (_, l) => visit(l)),
  );
  return { model: `sentences, ${shape}`, layers, layerExperts, steps };
}

/** The needs of a pass as tables that are right but not sure, with twice as many experts that are unlikely. */
function forecastOf(visits) {
  return visits.map((ids) => {
    const firstId = ids[0] - (ids[0] % layerExperts);
    const need = new Float32Array(layerExperts);
    for (const id of ids) {
      need[(id - firstId + 1) % layerExperts] ||= 0.02;
      need[(id - firstId + 7) % layerExperts] ||= 0.05;
    }
    for (const id of ids) need[id - firstId] = 0.97;
    return { firstId, need };
  });
}

/** Milliseconds of each part, a pass. */
function measure(slots, tables) {
  const store = new (loadAddon().WeightlessStore)({ experts, layerExperts, slots, loadsInFlight: 4 });
  const calibration = new NeedCalibration();
  const buffers = new PlanBuffers(experts);
  const policy = EVICTION_POLICIES['farthest-next-use'];
  const forecasts = steps.map((visits) => (tables ? forecastOf(visits) : []));
  const queue = [];
  const times = [];
  let residency;
  let loads = 0;
  let cpu = 0;
  for (const [at, visits] of steps.entries()) {
    const own = forecasts[at];
    const needs = own.map(({ firstId }, layer) => {
      const needed = new Uint8Array(layerExperts);
      for (const id of visits[layer]) needed[id - firstId] = 1;
      return needed;
    });
    const counted = at >= Number(warm);
    const before = process.cpuUsage();
    const marks = [performance.now()];
    residency = store.residency(residency);
    marks.push(performance.now());
    queue.shift();
    while (queue.length < Number(waiting) && at + 1 + queue.length < steps.length)
      queue.push(correctedVisits(forecasts[at + 1 + queue.length], calibration));
    const pass = correctedPass({ own, behind: [] }, calibration);
    const plan = planPass(pass, queue, { residency, policy, link: UNKNOWN_LINK }, buffers);
    marks.push(performance.now());
    if (counted) cpu += spent(before);
    store.startPass(plan);
    const visited = visits.map((ids) => store.visit(Uint32Array.from(ids)));
    const again = process.cpuUsage();
    marks.push(performance.now());
    for (const [layer, visit] of own.entries()) calibration.learn(visit, needs[layer]);
    marks.push(performance.now());
    if (!counted) continue;
    cpu += spent(again);
    for (const found of visited) loads += found === null ? 0 : found.demanded.length;
    times.push(Object.fromEntries(PARTS.map((part, i) => [part, marks[i + 1] - marks[i]])));
  }
  return { loads: loads / times.length, ...medians(times), cpu: cpu / times.length };
}

function spent(since) {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
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
const needs = steps.map((visits) => visits.reduce((all, ids) => all + ids.length, 0));
writeResult(
  'planner',
  {
    question: 'What does planning cost between two native calls?',
    ...scriptProvenance(),
    ...{ trace: trace && basename(trace), model, experts, layers, waiting: Number(waiting) },
    ...{ steps: steps.length - Number(warm), rounds: Number(rounds), needsPerStep: median(needs), rows },
  },
  quick,
);
