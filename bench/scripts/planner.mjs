// What does planning cost a pass? Routing runs through the expert store without weights, with the
// tables of each pass and of those that wait behind it, and without, and every part is timed.
import { basename } from 'node:path';
import { loadAddon } from '../../dist/native/addon.js';
import { openTrace } from '../dist/replay/open-trace.js';
import { NOTHING_KNOWN } from '../dist/replay/replay.js';
import { foundOf } from '../dist/replay/watched-store.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, writeResult } from '../dist/support/script.js';
import { median, medians } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/planner.mjs [--trace FILE] [--shapes 12x128,48x128] [--cache 10%,25%,50%] [--waiting 4]
  [--warm 16] [--rounds 5] [--quick (--rounds 1)]
--shapes: sentences of 16 tokens with skewed routing through shapes of layers x experts. --trace: the decode steps of a
route_trace CSV, gzipped or not, besides. --waiting: tables behind that of the pass. The result is bench/results/planner.json:
milliseconds of a pass for its plan and for learning from what it needed, and for the rest of what the store does: its
choice of victims.`;

const { trace, shapes, cache, waiting, warm, rounds, quick } = optionsOf(HELP);
/** Of the sentences. */
const PASSES = 512;
async function recorded() {
  const { model, layers, experts, batches } = await openTrace(trace);
  const steps = batches.flatMap(({ passes }) => passes).filter(({ phase }) => phase === 'decode');
  return { model, layers: layers.length, layerExperts: experts, steps: steps.map(({ visits }) => visits) };
}

function sentences(shape) {
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
  const steps = Array.from({ length: PASSES + Number(warm) }, () => Array.from({ length: layers }, (_, l) => visit(l)));
  return { model: `sentences, ${shape}`, layers, layerExperts, steps };
}

/** The needs of a pass as a table that is right but not sure, with twice as many experts that are unlikely. */
function tableOf({ layers, layerExperts }, visits, id) {
  const need = new Float32Array(layers * layerExperts);
  for (const expert of visits.flat()) {
    const first = expert - (expert % layerExperts);
    need[first + ((expert - first + 1) % layerExperts)] ||= 0.02;
    need[first + ((expert - first + 7) % layerExperts)] ||= 0.05;
  }
  for (const expert of visits.flat()) need[expert] = 0.97;
  return { id, layer: 0, need };
}

/** Milliseconds of each part, a pass. */
function measure(work, slots, tables) {
  const { layers, layerExperts, steps } = work;
  const counts = new Uint32Array(layers).fill(layerExperts);
  const store = new (loadAddon().WeightlessStore)({ layerExperts: counts, slots, loadsInFlight: 4 });
  const forecasts = steps.map((visits, at) => (tables ? [tableOf(work, visits, at)] : []));
  const times = [];
  let loads = 0;
  for (const [at, visits] of steps.entries()) {
    const upcoming = forecasts.slice(at + 1, at + 1 + Number(waiting));
    const needs = { ...NOTHING_KNOWN, own: forecasts[at], upcoming };
    const found = foundOf(visits, needs, layerExperts);
    const begin = performance.now();
    store.startPass(needs);
    const visited = visits.map((ids) => store.visit(Uint32Array.from(ids)));
    if (tables) store.learn(needs, found);
    const all = performance.now() - begin;
    const plan = store.takePlanNs() / 1e6;
    if (at < Number(warm)) continue;
    for (const loaded of visited) loads += loaded === null ? 0 : loaded.demanded.length;
    times.push({ plan, victims: all - plan });
  }
  return { loads: loads / times.length, ...medians(times) };
}

const works = shapes.split(',').map(sentences);
if (trace !== undefined) works.push(await recorded());
const rows = works.flatMap((work) => {
  const { model, layers, layerExperts, steps } = work;
  const needs = median(steps.map((visits) => visits.reduce((all, ids) => all + ids.length, 0)));
  return cache.split(',').flatMap((share) => {
    const slots = Math.round((layers * layerExperts * Number.parseFloat(share)) / 100);
    return [false, true].map((tables) => {
      const runs = Array.from({ length: Number(rounds) }, () => measure(work, slots, tables));
      const row = { model, needs, cache: share, slots, tables, ...medians(runs) };
      console.error(JSON.stringify(row));
      return row;
    });
  });
});
writeResult(
  'planner',
  {
    question: 'What does planning cost a pass?',
    ...scriptProvenance(),
    ...{ trace: trace && basename(trace), waiting: Number(waiting), rounds: Number(rounds), rows },
  },
  quick,
);
