// Tables of GPUs, and of decoders within a budget on them and on the CPU.
import { readdirSync } from 'node:fs';
import { groupsOf, groupTitle, perSecond } from '../../dist/report/groups.js';
import { each, gbs, mib, percent, plain, result, source, text, times } from './format.mjs';

function decode(r) {
  const resident = r.results.find(({ budget }) => budget === '100%') ?? r.results.at(-1);
  const rows = r.results.map((run) => [
    ...[
      run.pack ? `${run.pack}, ${run.budget}` : run.budget,
      `${run.slots} of ${run.experts}`,
      run.lookAheadLayers ?? 0,
    ],
    ...[run.prefillTokensPerSecond.toFixed(1), run.overBound ? times(run.overBound) : '–'],
    run.decodeTokensPerSecond.toFixed(2),
    percent(run.decodeTokensPerSecond / resident.decodeTokensPerSecond, 0),
    ...[mib(run.bytesPerToken), percent(run.hits), percent(run.stallShare, 0)],
    r.identical ? 'identical' : 'DIFFERENT',
  ]);
  const head =
    'budget | slots | layers ahead | prompt, tokens/s | its time ÷ bound | decode, tokens/s | ' +
    'of the largest budget | loaded a token | hits | time stalled | logits';
  return text(r, head, rows, r.gpu);
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

function cudaLimits(limits, { gpu, machine, gemm }) {
  return plain('what | measured', [
    ['GPU', `${gpu.name}, driver ${gpu.driver}, ${mib(gpu.totalBytes)}`],
    ['host', machine],
    ['copy, page-locked host memory to device', gbs(limits.hostToDeviceBytesPerSecond)],
    ['the same, an expert of Switch-base in bf16 at a time', gbs(limits.expertToDeviceBytesPerSecond)],
    ['copy, device to host', gbs(limits.deviceToHostBytesPerSecond)],
    ['copy inside the device, reads and writes', gbs(limits.deviceCopyBytesPerSecond)],
    ['tensor cores, bf16 from registers', gemm ? `${(gemm.mmaPerSecond / 1e12).toFixed(1)} TFLOP/s` : '–'],
  ]);
}

/** Few rows are bound by the weights' bytes, so they stand beside a copy; more rows beside the tensor cores. */
function cudaProducts({ cases }) {
  const counts = [...new Set(cases.map(({ rows }) => rows))];
  const few = (count) => count <= 16;
  const kinds = [...new Set(cases.map(({ format, k, n }) => `${format} ${k} × ${n}`))];
  const rows = kinds.map((kind) => [
    kind,
    ...counts.map((count) => {
      const one = cases.find(({ format, k, n, rows: own }) => `${format} ${k} × ${n}` === kind && own === count);
      return one ? percent(few(count) ? one.ofCopy : one.ofMma) : '–';
    }),
  ]);
  return plain(
    ['weights, k × n', ...counts.map((n) => `${n} rows, of ${few(n) ? 'a copy' : 'tensor cores'}`)].join(' | '),
    rows,
  );
}

const cudaKernels = ({ cases }) =>
  plain(
    'kernel | tokens | µs | bytes | of copy',
    cases.map((one) => [
      one.kernel,
      one.tokens,
      (one.seconds * 1e6).toFixed(2),
      gbs(one.bytesPerSecond),
      percent(one.ofCopy),
    ]),
  );

const inPasses = ({ passes, passSeconds, wallMs }) => (passes ? percent((1000 * passSeconds) / wallMs, 0) : '–');

function cudaMeasurements({ measurements }) {
  const rows = groupsOf(measurements).flatMap((group) =>
    group.measurements.map((own) => [
      ...[groupTitle(group), percent(own.scenario.share, 0), own.system, own.sentences, perSecond(own).toFixed(1)],
      group.resident ? times(perSecond(own) / perSecond(group.resident)) : '–',
      ...[`${own.p50Ms.toFixed(2)} / ${own.p95Ms.toFixed(2)}`, inPasses(own), mib(own.bytesMoved / own.sentences)],
      own.needed === 0 ? '–' : percent((own.resident + own.prefetched) / own.needed),
      own.gpuPeakBytes ? mib(own.gpuPeakBytes - own.gpuBeforeBytes) : '–',
      own.digest === group.resident?.digest ? 'identical bits' : own.agreement === null ? '–' : percent(own.agreement),
    ]),
  );
  const head =
    'inputs | budget | system | number | sentences/s | ÷ resident | p50 / p95, ms | in passes | loaded per sentence';
  return plain(`${head} | hits | driver’s peak | answers, or same labels`, rows);
}

export const gpuTables = {
  'cuda-machine': () => ofGpus('limits', cudaLimits),
  'cuda-products': () => ofGpus('gemm', cudaProducts),
  'cuda-kernels': () => ofGpus('rows', cudaKernels),
  'cuda-measurements': () => ofGpus('measurements', cudaMeasurements),
  'cuda-decode': () => each(['cuda-decode-qwen3-30b'], decode),
  'cuda-decode-olmoe-7b': () => each(['cuda-decode-olmoe-7b'], decode),
  decode: () =>
    each(
      [
        ...['olmoe-7b', 'qwen3-30b-a3b', 'gpt-oss-20b', 'bf16c-olmoe-7b', 'bf16c-olmoe-mini'],
        ...['qwen3-30b-prompt-512', 'qwen3-30b-prompt-4096'],
      ],
      decode,
    ),
};
