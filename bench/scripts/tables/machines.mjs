// Tables of kernels, GPUs, the service and the peers, from results of scripts.
import { readdirSync } from 'node:fs';
import { lineChart } from '../../dist/report/charts.js';
import { markdownTable } from '../../dist/report/format.js';
import { groupsOf, groupTitle, perSecond } from '../../dist/report/groups.js';
import { median } from '../../dist/support/statistics.js';
import { fixed, hasResult, mib, percent, result, source, text, times } from './format.mjs';

const giga = (value) => (value / 1e9).toFixed(0);
const gbs = (value) => (value === undefined ? '–' : `${(value / 1e9).toFixed(1)} GB/s`);
const each = (names, make) =>
  names
    .filter(hasResult)
    .map((name) => make(result(name), name))
    .join('\n\n');
const withAmx = (name) => [name, `${name}-amx`];

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
    ({
      threads,
      readBytesPerSecond,
      fmaPerSecond,
      vnniPerSecond,
      amxBf16PerSecond = 0,
      amxInt8PerSecond = 0,
    }) =>
      `${threads} thread${threads > 1 ? 's' : ''}: reads ${gbs(readBytesPerSecond)}, f32 FMA ${giga(fmaPerSecond)} GFLOP/s, ` +
      `VNNI ${giga(vnniPerSecond)} GOP/s${amxBf16PerSecond > 0 ? `, AMX ${giga(amxBf16PerSecond)} GFLOP/s, ${giga(amxInt8PerSecond)} GOP/s` : ''}`,
  );
  const rowsOf = (counts, of) => counts.map((n) => `${n} row${n > 1 ? 's' : ''}, of ${of}`);
  const head = [
    'weights × activations',
    'threads',
    ...rowsOf(few, 'the read rate'),
    ...rowsOf(many, 'the unit'),
    'unit',
  ];
  return text(r, head, rows, `${limits.join('; ')}.`);
}

function decode(r) {
  const resident = r.results.find(({ budget }) => budget === '100%') ?? r.results.at(-1);
  const rows = r.results.map((run) => [
    ...[run.budget, `${run.slots} of ${run.experts}`, run.lookAheadLayers ?? 0],
    ...[run.prefillTokensPerSecond.toFixed(1), run.decodeTokensPerSecond.toFixed(2)],
    percent(run.decodeTokensPerSecond / resident.decodeTokensPerSecond, 0),
    ...[mib(run.bytesPerToken), percent(run.hits), percent(run.stallShare, 0)],
    r.identical ? 'identical' : 'DIFFERENT',
  ]);
  const head = [
    'budget',
    'slots',
    'layers ahead',
    'prompt, tokens/s',
    'decode, tokens/s',
    'of the largest budget',
  ];
  return text(r, [...head, 'loaded a token', 'hits', 'time stalled', 'logits'], rows, r.gpu);
}

const gpuReports = () =>
  readdirSync('bench/results/cuda')
    .filter((name) => name.endsWith('.json') && name !== 'bench.json')
    .map((name) => result(`cuda/${name.replace('.json', '')}`))
    .filter(({ format, gpu }) => format === 'sida-cuda-bench' && !gpu.emulated);

/** Of each GPU a table of what one part of its report has; such a part may have a command of its own. */
function ofGpus(part, make) {
  return gpuReports()
    .filter((report) => report[part])
    .map((report) => {
      const { command, commit } = report.parts?.[part] ?? report;
      const made = source({ command, commit, machine: report.gpu.name, isa: report.machine });
      return `${make(report[part], report)}\n\n${made}`;
    })
    .join('\n\n');
}

const plain = (head, rows) => markdownTable({ head, rows: rows.map((row) => row.map(String)) });

function cudaLimits(limits, { gpu, machine, gemm }) {
  return plain(
    ['what', 'measured'],
    [
      ['GPU', `${gpu.name}, driver ${gpu.driver}, ${mib(gpu.totalBytes)}`],
      ['host', machine],
      ['copy, page-locked host memory to device', gbs(limits.hostToDeviceBytesPerSecond)],
      ['the same, an expert of Switch-base in bf16 at a time', gbs(limits.expertToDeviceBytesPerSecond)],
      ['copy, device to host', gbs(limits.deviceToHostBytesPerSecond)],
      ['copy inside the device, reads and writes', gbs(limits.deviceCopyBytesPerSecond)],
      ['tensor cores, bf16 from registers', gemm ? `${(gemm.mmaPerSecond / 1e12).toFixed(1)} TFLOP/s` : '–'],
    ],
  );
}

/** Few rows are bound by the weights' bytes, so they stand beside a copy; more rows beside the tensor cores. */
function cudaProducts({ cases }) {
  const counts = [...new Set(cases.map(({ rows }) => rows))];
  const few = (count) => count <= 16;
  const kinds = [...new Set(cases.map(({ format, k, n }) => `${format} ${k} × ${n}`))];
  const rows = kinds.map((kind) => [
    kind,
    ...counts.map((count) => {
      const one = cases.find(
        ({ format, k, n, rows: own }) => `${format} ${k} × ${n}` === kind && own === count,
      );
      return one ? percent(few(count) ? one.ofCopy : one.ofMma) : '–';
    }),
  ]);
  return plain(
    ['weights, k × n', ...counts.map((n) => `${n} rows, of ${few(n) ? 'a copy' : 'tensor cores'}`)],
    rows,
  );
}

const cudaKernels = ({ cases }) =>
  plain(
    ['kernel', 'tokens', 'µs', 'bytes', 'of copy'],
    cases.map((one) => [
      one.kernel,
      one.tokens,
      (one.seconds * 1e6).toFixed(2),
      gbs(one.bytesPerSecond),
      percent(one.ofCopy),
    ]),
  );

function cudaMeasurements({ measurements }) {
  const rows = groupsOf(measurements).flatMap((group) =>
    group.measurements.map((own) => [
      ...[
        groupTitle(group),
        percent(own.scenario.share, 0),
        own.system,
        own.sentences,
        perSecond(own).toFixed(1),
      ],
      group.resident ? times(perSecond(own) / perSecond(group.resident)) : '–',
      ...[`${own.p50Ms.toFixed(2)} / ${own.p95Ms.toFixed(2)}`, mib(own.bytesMoved / own.sentences)],
      own.needed === 0 ? '–' : percent((own.resident + own.prefetched) / own.needed),
      own.gpuPeakBytes ? mib(own.gpuPeakBytes - own.gpuBeforeBytes) : '–',
      own.digest === group.resident?.digest
        ? 'identical bits'
        : own.agreement === null
          ? '–'
          : percent(own.agreement),
    ]),
  );
  const head = [
    'inputs',
    'budget',
    'system',
    'number',
    'sentences/s',
    '÷ resident',
    'p50 / p95, ms',
    'loaded per sentence',
  ];
  return plain([...head, 'hits', 'driver’s peak', 'answers, or same labels'], rows);
}

function planner() {
  const r = result('planner');
  const rows = r.rows.map(({ model, needs, cache, slots, tables, loads, plan, victims }) => [
    ...[model, needs.toFixed(0), `${cache} (${slots})`, tables ? 'with tables' : 'without', loads.toFixed(0)],
    ...[plan, victims].map(fixed(3)),
  ]);
  const about = `${r.waiting} tables waiting; medians of all passes and ${r.rounds} rounds, in milliseconds.`;
  const head = [
    'routing',
    'needed a pass',
    'experts in memory',
    'tables',
    'loads a pass',
    'planning and learning',
    'the rest of the store',
  ];
  return text(r, head, rows, about);
}

/** One row a setting: the time of each server over that of `none`, and what they load. */
function prediction() {
  const { settings } = result('prediction');
  const over = (slower) =>
    `${percent(slower.mean)} (${percent(slower.low, 0)} to ${percent(slower.high, 0)})`;
  const rows = settings.map(({ model, budget, link, task, clients, rows: servers }) => {
    const of = (name) => servers.find(({ system }) => system === name);
    const times = ['default', 'true tables', 'none again'].map((name) =>
      of(name) === undefined ? '–' : over(of(name).slower),
    );
    const loads = ['default', 'true tables', 'none'].map((name) =>
      of(name) === undefined ? '–' : (of(name).bytesPerRequest / 2 ** 10).toFixed(0),
    );
    return [`${model}, ${task}`, clients, budget, link, ...times, loads.join(' / ')];
  });
  const head = ['model', 'clients', 'experts in memory', 'from', 'defaults', 'true tables', '`none` again'];
  const about = 'Time over that of `--predictor none`, less 1: mean and 95 % interval over the starts.';
  return [
    markdownTable({
      head: [...head, 'KiB a request: defaults / true / none'],
      rows: rows.map((row) => row.map(String)),
    }),
    about,
    ...new Set(settings.map(source)),
  ].join('\n\n');
}

function restOverhead(r) {
  const rows = r.runs.map(({ batchWaitMs, one, many, bareMany, overBareP50Ms, throughputShare }) => [
    batchWaitMs,
    ...[one.latencyP50Ms, one.inferenceP50Ms, one.overheadP50Ms, overBareP50Ms].map(fixed(2)),
    ...[
      many.perSecond.toFixed(0),
      many.batch.toFixed(1),
      bareMany.perSecond.toFixed(0),
      percent(throughputShare, 0),
    ],
    [many.clientCpuMs, many.apiCpuMs, many.engineCpuMs, bareMany.cpuMs].map(fixed(2)).join(' / '),
  ]);
  const head = [
    ...[
      '--batch-wait-ms',
      '1 client: p50, ms',
      'engine time of it',
      'over engine time',
      'over the bare engine',
    ],
    ...[`${r.clients} clients: requests/s`, 'mean batch', 'bare engine at that batch', 'share'],
    'CPU a request, ms: clients / API process / engine process / bare engine',
  ];
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
  const head = [
    'clients',
    'first token p50 / p99, ms',
    'between tokens mean / p99, ms',
    'tokens/s',
    ...(disk ? ['÷ one client', 'loaded a token'] : ['bare engine', 'share']),
  ];
  return text(r, head, rows, about);
}

function redisQueue(r) {
  const { commands, redisCpuMs, redisCpuMsOfMany, p50Ms, jobsPerSecond, workers, flood } = r;
  const head = ['commands a job', 'CPU of Redis, ms', 'the same with 64 clients', 'p50, ms', 'jobs/s'];
  const costs = [redisCpuMs, redisCpuMsOfMany, p50Ms].map(fixed(3));
  const table = plain(
    ['workers', 'jobs/s', 'of what their engines can', 'p50, ms', 'CPU of Redis a job, ms'],
    workers.map((each) => [
      ...[each.workers, each.jobsPerSecond.toFixed(0), percent(each.ofMost, 0)],
      ...[each.p50Ms.toFixed(0), each.redisCpuMs.toFixed(2)],
    ]),
  );
  const [alone, quiet, noisy] = [flood.aloneMs, flood.quietMs, flood.floodMs].map(fixed(0));
  const wait = `One job at a time while ${flood.jobs} jobs of another key wait: p50 ${quiet} ms, alone ${alone} ms; the other key ${noisy} ms.`;
  return text(r, head, [[commands.toFixed(1), ...costs, jobsPerSecond.toFixed(0)]], `${table}\n\n${wait}`);
}

function encoderPeers(r) {
  const rows = r.comparisons.flatMap(({ dtype, activations = 'f32', peerDtype, lengths, classes, commit }) =>
    classes.map(({ least, most, oursMs, peerMs, ratio, ratioQuartiles, expertsNeeded }) => [
      ...[
        `${dtype} × ${activations}`,
        peerDtype,
        `${lengths}, ${least}–${most}`,
        oursMs.toFixed(1),
        peerMs.toFixed(1),
      ],
      ...[`${times(ratio)} (${ratioQuartiles.map(fixed(2)).join('–')})`, expertsNeeded, commit],
    ]),
  );
  const [{ peer, command, commit }] = r.comparisons;
  const about = `${r.shape}, random weights, ${r.threads} threads, batch 1; torch ${peer.torch}, transformers ${peer.transformers}.`;
  const head = [
    'weights × activations',
    'transformers',
    'tokens',
    'ours, ms',
    'transformers, ms',
    'ratio (quartiles)',
  ];
  return text({ ...r, command, commit }, [...head, 'experts needed', 'commit'], rows, about);
}

const rate = (value) => value.toFixed(value < 10 ? 2 : 1);

/** Prompt and decoding of one system in rounds with the same memory, and how far sida is ahead of it. */
function limitedCells(rounds, name) {
  if (rounds.every((row) => row[name] === undefined)) return ['not measured', '', '', ''];
  const found = rounds.filter((row) => row[name]);
  if (found.length === 0) return ['killed by the limit', '', '', ''];
  return ['prefillTokensPerSecond', 'decodeTokensPerSecond'].flatMap((figure) => {
    const ratios = found.map((row) => row.sida[figure] / row[name][figure]);
    const span = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}×`;
    return [rate(median(found.map((row) => row[name][figure]))), name === 'sida' ? '' : span];
  });
}

function llamaLimited(r) {
  const shares = [...new Set(r.rows.map(({ share }) => share))];
  const systems = { sida: '`sida`', peer: 'llama.cpp', ikLlama: 'ik_llama.cpp' };
  const rows = shares.flatMap((share) => {
    const rounds = r.rows.filter((row) => row.share === share);
    const memory = share === null ? 'all' : `${mib(rounds[0].limitBytes)} (${percent(share, 0)})`;
    return Object.entries(systems).map(([name, title]) => [memory, title, ...limitedCells(rounds, name)]);
  });
  const about =
    `${r.file}, ${mib(r.fileBytes)}; ${r.threads} threads; ${r.promptTokens} + ${r.steps} tokens; ${r.rounds} rounds; ` +
    `read-ahead ${r.readAheadKib} KiB; \`sida\` with ${r.serve === '' ? 'its defaults' : `\`${r.serve}\``}.`;
  return text(
    r,
    ['memory', 'system', 'prompt, tokens/s', '`sida` over it', 'decoding, tokens/s', '`sida` over it'],
    rows,
    about,
  );
}

/** README's chart. */
export function memoryChart() {
  const { rows, fileBytes } = result('llama-limited-qwen3-30b');
  const shares = [...new Set(rows.map(({ share }) => share))].sort((a, b) => (a ?? 1) - (b ?? 1));
  const points = (name, series) =>
    shares.map((share) => {
      const rounds = rows.filter((row) => row.share === share).map((row) => row[name].decodeTokensPerSecond);
      return { x: ((share ?? 1) * fileBytes) / 2 ** 30, y: median(rounds), series };
    });
  return lineChart({
    title: 'Decoding within a memory limit',
    subtitle: 'Qwen3-30B-A3B shape, Q4_0, 16 GiB; 2 cores with AVX-512; medians of three rounds',
    rows: [...points('sida', 'sida'), ...points('peer', 'llama.cpp')],
    x: 'memory, GiB',
    y: 'tokens a second',
    domain: [0, 17],
  });
}

function llamaTokens() {
  const names = readdirSync('bench/results').filter((name) => name.startsWith('llama-peer-'));
  const all = names.map((name) => result(name.replace('.json', '')));
  const rows = all.map(
    ({ file, types, steps, equalUntilFirstDifference, agreeing, differences: [first] }) => [
      ...[file, types.experts, steps, equalUntilFirstDifference, agreeing],
      first ? percent(first.margin / first.spread, 2) : '–',
    ],
  );
  const head = [
    'file',
    'experts',
    'tokens',
    'equal before the first difference',
    'agreeing',
    'margin there, of the spread',
  ];
  return [plain(head, rows), ...all.map(source)].join('\n\n');
}

const LLAMA = ['int8', 'int8-amx', 'q4_0-amx', 'qwen3-30b', 'qwen3-30b-f32', 'qwen3-30b-amx'].map(
  (name) => `llama-limited-${name}`,
);

export const machineTables = {
  kernels: () => each(withAmx('kernels'), kernels),
  'cuda-machine': () => ofGpus('limits', cudaLimits),
  'cuda-products': () => ofGpus('gemm', cudaProducts),
  'cuda-kernels': () => ofGpus('rows', cudaKernels),
  'cuda-measurements': () => ofGpus('measurements', cudaMeasurements),
  'cuda-decode': () => each(['cuda-decode-qwen3-30b'], decode),
  'cuda-decode-olmoe-7b': () => each(['cuda-decode-olmoe-7b'], decode),
  decode: () => each(['olmoe-7b', 'qwen3-30b-a3b', 'gpt-oss-20b'], decode),
  planner,
  prediction,
  'rest-overhead': () => each(withAmx('rest-overhead'), restOverhead),
  streams: () =>
    each(
      ['streams', 'streams-amx', 'streams-pack-amx', 'streams-disk-olmoe-7b', 'streams-disk-olmoe-mini'],
      streams,
    ),
  'redis-queue': () => each(['redis-queue'], redisQueue),
  'encoder-peers': () => each(withAmx('encoder-peers'), encoderPeers),
  'llama-limited': () => each(LLAMA, llamaLimited),
  'llama-tokens': llamaTokens,
};
