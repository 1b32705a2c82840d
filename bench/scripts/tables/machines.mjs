// Tables of kernels and of the service, from results of scripts.
import { lineChart } from '../../dist/report/charts.js';
import { each, fixed, gbs, mib, percent, plain, result, source, text, withAmx } from './format.mjs';

const giga = (value) => (value / 1e9).toFixed(0);
/** The unit that a product is compared with where rows are many, and its share of that. */
function bestUnit({ activations }, amx) {
  if (amx && activations !== 'f32') return ['AMX', 'ofAmx'];
  return activations === 'int8' ? ['VNNI', 'ofVnni'] : ['f32 FMA', 'ofFma'];
}

function kernels(r) {
  const amx = r.isa.includes('amx');
  const [few, many] = [
    [1, 2, 4, 8],
    [16, 64, 256],
  ];
  const rows = r.runs.flatMap((run) => {
    const kinds = new Map(run.cases.map((own) => [`${own.format} × ${own.activations}`, own]));
    return [...kinds].map(([name, kind]) => {
      const at = (count) =>
        run.cases.find(
          (own) => own.format === kind.format && own.activations === kind.activations && own.rows === count,
        );
      const [unit, share] = bestUnit(kind, amx);
      const cells = [...few.map((n) => at(n)?.ofRead), ...many.map((n) => at(n)?.[share])];
      return [name, run.threads, ...cells.map((own) => (own === undefined ? '–' : percent(own, 0))), unit];
    });
  });
  const limits = r.runs.map(
    ({ threads, readBytesPerSecond, fmaPerSecond, vnniPerSecond, amxBf16PerSecond = 0, amxInt8PerSecond = 0 }) =>
      `${threads} thread${threads > 1 ? 's' : ''}: reads ${gbs(readBytesPerSecond)}, f32 FMA ${giga(fmaPerSecond)} GFLOP/s, ` +
      `VNNI ${giga(vnniPerSecond)} GOP/s${amxBf16PerSecond > 0 ? `, AMX ${giga(amxBf16PerSecond)} GFLOP/s, ${giga(amxInt8PerSecond)} GOP/s` : ''}`,
  );
  const rowsOf = (counts, of) => counts.map((n) => `${n} row${n > 1 ? 's' : ''}, of ${of}`);
  const counts = [...rowsOf(few, 'the read rate'), ...rowsOf(many, 'the unit')].join(' | ');
  return text(r, `weights × activations | threads | ${counts} | unit`, rows, `${limits.join('; ')}.`);
}

function planner() {
  const r = result('planner');
  const rows = r.rows.map(({ model, needs, cache, slots, tables, loads, plan, victims }) => [
    ...[model, needs.toFixed(0), `${cache} (${slots})`, tables ? 'with tables' : 'without', loads.toFixed(0)],
    ...[plan, victims].map(fixed(3)),
  ]);
  const about = `${r.waiting} tables waiting; medians of all passes and ${r.rounds} rounds, in milliseconds.`;
  const head =
    'routing | needed a pass | experts in memory | tables | loads a pass | planning and learning | ' +
    'the rest of the store';
  return text(r, head, rows, about);
}

const systemOf = (setting, name) => setting.rows.find(({ system }) => system === name);

/** What prediction must reach, and what it reaches. */
function predictionTargets() {
  const { settings } = result('prediction');
  const nameOf = ({ model, task, budget, link, clients }) => `${model}, ${task}, ${budget} ${link} × ${clients}`;
  const slower = (name) => {
    const known = settings.filter((setting) => systemOf(setting, name) !== undefined);
    const lost = known.filter((setting) => {
      const { mean, low } = systemOf(setting, name).slower;
      return mean > 0.03 && low > 0;
    });
    return [`${lost.length} of ${known.length}`, lost.map(nameOf).join('; ') || '–'];
  };
  const gain = (setting, name) => -(systemOf(setting, name)?.slower.mean ?? 0);
  const shares = settings
    .filter((setting) => gain(setting, 'true tables') >= 0.15)
    .map((setting) => {
      const part = (name) => percent(gain(setting, name) / gain(setting, 'true tables'), 0);
      const erring = setting.rows.find(({ system }) => system.startsWith('true in '))?.system;
      return `${nameOf(setting)}: ${part('default')}${erring === undefined ? '' : ` (${erring}: ${part(erring)})`}`;
    });
  const words = settings.find((setting) => nameOf(setting) === 'switch-words, category, 60% disk × 1');
  const overNone = ['true tables', 'default'].map((name) => (1 - gain(words, name)).toFixed(2));
  const plans = [12, 48].map((layers) => {
    const same = result('planner').rows.filter(({ model, tables }) => model.includes(`${layers}x128`) && tables);
    return Math.max(...same.map(({ plan }) => plan)).toFixed(2);
  });
  const streamsOver = ['olmoe-mini', 'olmoe-7b'].map((name) => {
    const { runs } = result(`streams-disk-${name}`);
    return [4, 8].map((n) => (runs.find(({ clients }) => clients === n).perSecond / runs[0].perSecond).toFixed(2));
  });
  const rows = [
    ['settings slower by more than 3 % and more than chance, defaults', '0', ...slower('default')],
    ['the same, true tables', '0', ...slower('true tables')],
    ['of what true tables gain, where that is 15 % or more', '≥ 50 %', shares.length, shares.join('; ')],
    ['switch-words 60%, disk, over none: true tables / defaults', '≤ 1.01 / 1.03', overNone.join(' / '), ''],
    ['ms to plan a pass with four tables, 12 × 128 / 48 × 128', '≤ 0.05 / 0.2', plans.join(' / '), '`planner.md`'],
    ['4, 8 streams over 1 from disk, padded olmoe-mini', '≥ 1.3, 1.6', streamsOver[0].join(', '), '`rest.md`'],
    ['the same, OLMoE-7B shape with random weights', '≥ 1.0, 1.1', streamsOver[1].join(', '), '`rest.md`'],
  ];
  return plain('what | target | measured | where', rows);
}

/** One row a setting: the time with prediction over time without, and what both load. */
function prediction() {
  const { settings } = result('prediction');
  const over = ({ mean, low, high }) => `${percent(mean)} (${percent(low, 0)} to ${percent(high, 0)})`;
  const rows = settings.map((setting) => {
    const { model, budget, link, task, clients, threads } = setting;
    const [usual, tables] = ['default', 'true tables'].map((name) => systemOf(setting, name));
    const both = (digits, of) => [usual.on, usual.off].map((state) => of(state).toFixed(digits)).join(' / ');
    return [
      ...[`${model}, ${task}`, clients, threads ?? 2, budget, link, over(usual.slower)],
      ...[tables === undefined ? '–' : over(tables.slower), over(usual.control)],
      ...[both(1, ({ ms }) => ms), both(0, ({ bytes }) => bytes / 2 ** 10)],
    ];
  });
  const head = 'model | clients | threads | experts in memory | from | defaults | true tables | control';
  const about =
    'Time with prediction over time without, less 1: mean and 95 % interval. Prediction is switched on and off between ' +
    'blocks of the same requests, and the control is off again. The server learns from the blocks without prediction ' +
    'what tables save. A simulated link copies on a core of its own where one of two threads is left out. Rows of ' +
    'commits before aac416ae: each switch reset what the server had learned.';
  return [
    plain(`${head} | ms a request: on / off | KiB a request: on / off`, rows),
    about,
    ...new Set(
      settings.map(({ commit, machine, isa }) => `Commands: prediction.json. Commit ${commit} · ${machine} · ${isa}`),
    ),
  ].join('\n\n');
}

function restOverhead(r) {
  const rows = r.runs.map(({ batchWaitMs, one, many, bareMany, overBareP50Ms, throughputShare }) => [
    batchWaitMs,
    ...[one.latencyP50Ms, one.inferenceP50Ms, one.overheadP50Ms, overBareP50Ms].map(fixed(2)),
    ...[many.perSecond.toFixed(0), many.batch.toFixed(1), bareMany.perSecond.toFixed(0), percent(throughputShare, 0)],
    [many.clientCpuMs, many.apiCpuMs, many.engineCpuMs, bareMany.cpuMs].map(fixed(2)).join(' / '),
  ]);
  const head =
    '--batch-wait-ms | 1 client: p50, ms | engine time of it | over engine time | over the bare engine | ' +
    `${r.clients} clients: requests/s | mean batch | bare engine at that batch | share | ` +
    'CPU a request, ms: clients / API process / engine process / bare engine';
  return text(r, head, rows);
}

function streams(r) {
  const disk = r.budget !== '100%';
  const rows = r.runs.map((run) => [
    run.clients,
    `${run.firstP50Ms.toFixed(1)} / ${run.firstP99Ms.toFixed(1)}`,
    `${run.betweenMeanMs.toFixed(2)} / ${run.betweenP99Ms.toFixed(2)}`,
    run.perSecond.toFixed(run.perSecond < 100 ? 1 : 0),
    ...(disk
      ? [(run.perSecond / r.runs[0].perSecond).toFixed(2), mib(run.bytesPerToken)]
      : [run.barePerSecond.toFixed(0), percent(run.shareOfBare, 0)]),
  ]);
  const about = `${r.model}, ${r.budget} in memory, ${r.activations ?? 'f32'} activations, ${r.streams} streams of at most ${r.maxTokens} tokens, medians of ${r.rounds} rounds.`;
  const head = 'clients | first token p50 / p99, ms | between tokens mean / p99, ms | tokens/s';
  const last = disk ? '÷ one client | loaded a token' : 'bare engine | share';
  return text(r, `${head} | ${last}`, rows, about);
}

function redisQueue(r) {
  const { commands, redisCpuMs, redisCpuMsOfMany, p50Ms, jobsPerSecond, workers, flood } = r;
  const head = 'commands a job | CPU of Redis, ms | the same with 64 clients | p50, ms | jobs/s';
  const costs = [redisCpuMs, redisCpuMsOfMany, p50Ms].map(fixed(3));
  const table = plain(
    'workers | jobs/s | of what their engines can | p50, ms | CPU of Redis a job, ms',
    workers.map((each) => [
      ...[each.workers, each.jobsPerSecond.toFixed(0), percent(each.ofMost, 0)],
      ...[each.p50Ms.toFixed(0), each.redisCpuMs.toFixed(2)],
    ]),
  );
  const [alone, quiet, noisy] = [flood.aloneMs, flood.quietMs, flood.floodMs].map(fixed(0));
  const wait = `One job at a time while ${flood.jobs} jobs of another key wait: p50 ${quiet} ms, alone ${alone} ms; the other key ${noisy} ms.`;
  return text(r, head, [[commands.toFixed(1), ...costs, jobsPerSecond.toFixed(0)]], `${table}\n\n${wait}`);
}

const TARGETS = { bytes: 0.1, seconds: 0.15 };
/** Errors of nine of ten quotes beside those of controls that quote in hindsight; those within the target are bold. */
function quotes() {
  const { models } = result('quotes');
  const cells = (name, { quote, sameLengths, sameRequest }) =>
    [quote, sameLengths, sameRequest].map(({ 8: nine }) => {
      const told = percent(nine, 0);
      return nine <= TARGETS[name] ? `**${told}**` : told;
    });
  const bySize = (a, b) => Number.parseFloat(a.budget) - Number.parseFloat(b.budget);
  const rows = models.flatMap(({ model, rows: own }) =>
    own
      .toSorted(bySize)
      .map(({ budget, others, bytes, seconds }) => [
        ...[model, budget, others === 0 ? 'none' : others],
        ...[mib(bytes.median), ...(bytes.median > 0 ? cells('bytes', bytes) : ['–', '–', '–'])],
        ...[(1000 * seconds.median).toFixed(0), ...cells('seconds', seconds), percent(seconds.within, 0)],
      ]),
  );
  const controls = (name) => `quote, target ${percent(TARGETS[name], 0)} | same lengths | same request`;
  const head = `model | budget | other clients | bytes, median | ${controls('bytes')} | ms, median | ${controls('seconds')} | within the quoted 90 %`;
  const about =
    'Nine of ten answers are off by at most so much: |answer − p50| over the larger of both. "Same lengths" and "same ' +
    'request" quote in hindsight: by the mean of the answers to other texts of the same lengths, and of the other answers ' +
    'to the same text. The first knows all but the experts that a text needs; the second leaves only noise and the state ' +
    'of the server. Both are means of few answers, which makes them noisy. Bold: within the target.';
  return [plain(head, rows), about, ...models.map(source)].join('\n\n');
}

/** Share of the answers that were off by at most so much. */
export function quotesChart() {
  const rows = result('quotes').models.flatMap(({ rows: own }) => own);
  const kinds = { quote: 'quote', sameLengths: 'mean of the same lengths', sameRequest: 'mean of the same request' };
  const lines = Object.entries(kinds).flatMap(([kind, told]) =>
    Object.keys(TARGETS).map((name) => {
      const errors = rows.filter(({ bytes }) => bytes.median > 0).flatMap((row) => row[name][kind]);
      errors.sort((a, b) => a - b);
      return Array.from({ length: 39 }, (_, i) => {
        const y = (i + 1) / 40;
        return { x: errors[Math.floor(y * errors.length)], y, series: `${name}: ${told}` };
      });
    }),
  );
  return lineChart({
    title: 'How far quotes are off, beside controls',
    subtitle: 'All models, budgets and loads of quotes.md',
    rows: lines.flat(),
    x: 'error: |answer − quoted 50 %| ÷ the larger',
    y: 'share of answers',
    domain: [0, 1],
  });
}

export const machineTables = {
  quotes,
  kernels: () => each(withAmx('kernels'), kernels),
  planner,
  prediction,
  'prediction-targets': predictionTargets,
  'rest-overhead': () => each(withAmx('rest-overhead'), restOverhead),
  streams: () =>
    each(['streams', 'streams-amx', 'streams-pack-amx', 'streams-disk-olmoe-7b', 'streams-disk-olmoe-mini'], streams),
  'redis-queue': () => each(['redis-queue'], redisQueue),
};
