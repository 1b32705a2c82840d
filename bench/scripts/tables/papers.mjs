// Tables beside the papers, from results of scripts.
import { isTold } from '../../../dist/evaluation/paired-difference.js';
import { dataTitle } from '../../dist/report/format.js';
import { MOST_CRITICAL } from '../../dist/studies/critical-tokens.js';
import { PART_NAMES } from '../../dist/studies/pass-parts.js';
import { fixed, mib, percent, result, text, times } from './format.mjs';

const NAMES = {
  qwen: 'Qwen3-30B-A3B',
  gemma: 'gemma-4-26B-A4B-it',
  gptoss: 'gpt-oss-120b',
  'switch-mini': 'switch-mini, SST-2',
};
const factorName = (factor) => (factor === 0 ? 'static, drops none' : `static, factor ${factor}`);

/** What a trace's figures are about: its generation, or for ours the whole inputs, which have next to none. */
const spanOf = ({ name }, run) =>
  name === 'switch-mini'
    ? { loads: run.prefill.loads + run.decode.loads, bytes: run.prefill.bytes + run.decode.bytes }
    : run.decode;
const runName = ({ policy, lookahead }) => (lookahead === null ? policy : `${policy}, ${lookahead} ahead`);

function replayMisses() {
  const r = result('replay');
  const runs = r.reports[0].caches[0].policies;
  const rows = r.reports.flatMap((report) => {
    const { phases, name } = report;
    const needs = phases.decode.needs + (name === 'switch-mini' ? phases.prefill.needs : 0);
    return report.caches.map(({ share, slots, policies }) => [
      NAMES[name] ?? name,
      `${percent(share, 0)} (${slots})`,
      ...policies.map((run) => percent(spanOf(report, run).loads / needs)),
    ]);
  });
  const about =
    'Loads of the experts needed, on demand or ahead; of the generation, and of all of switch-mini. `none` is ' +
    '`sida serve --predictor none`; `true-tables` is its planner with the recorded routing as tables.';
  return text(r, ['trace', 'cache (experts)', ...runs.map(runName)].join(' | '), rows, about);
}

function replayShort() {
  const r = result('replay');
  const rows = r.reports.flatMap((report) =>
    report.caches
      .filter(({ share }) => [0.1, 0.25].includes(share))
      .map(({ share, policies }) => {
        const bytes = (policy, lookahead = null) =>
          spanOf(
            report,
            policies.find((run) => run.policy === policy && run.lookahead === lookahead),
          ).bytes;
        const over = (...run) => times(bytes(...run) / bytes('belady'));
        return [
          NAMES[report.name] ?? report.name,
          percent(share, 0),
          times(bytes('none') / bytes('lru')),
          over('lru'),
          over('expert-buffering'),
          over('none'),
          over('true-tables', 1),
          over('true-tables', 4),
        ];
      }),
  );
  const head = 'trace | experts in memory | without a predictor ÷ LRU | LRU ÷ Belady | Expert Buffering ÷ Belady';
  return text(r, `${head} | without a predictor ÷ Belady | true tables, 1 ahead | true tables, 4 ahead`, rows);
}

function gating() {
  const r = result('model-gating');
  const rows = r.runs.flatMap(({ stack, batch, tokens, ms, bytes, static: padded, buffered }) =>
    [
      ['dynamic', ms, mib(bytes), ''],
      ...padded.map((own) => [
        factorName(own.factor),
        own.ms,
        `${mib(own.bytes)}, mask ${mib(own.maskBytes)}`,
        own.dropped === 0 ? '' : `drops ${percent(own.dropped, 0)}`,
      ]),
      ...buffered.map((own) => [
        `dynamic, ${own.policy}, ${own.budget}`,
        own.ms,
        mib(own.peakBytes),
        `loads ${mib(own.bytesMoved)} a pass`,
      ]),
    ].map(([name, own, memory, note]) => [
      ...[`${stack}, batch ${batch}`, name, own.toFixed(2), (tokens / (own / 1000)).toFixed(0)],
      ...[times(ms / own), memory, note],
    ]),
  );
  const about =
    `${r.model}, ${r.experts} experts a layer, ${r.dtype}: ${r.inputs} inputs of ${r.length} tokens, ${r.steps} ` +
    `decoder steps, ${r.threads} threads, medians of ${r.repeats} rounds. Static rows are composed.`;
  return text(r, 'passes | gating | ms | tokens/s | throughput ÷ dynamic | memory | ', rows, about);
}

function dependency() {
  const r = result('dependency');
  const rows = r.reports.flatMap(({ model, data, inputs, corruption, swaps, controls }) => {
    const name = `${model}, ${data} (${inputs})`;
    const shares = (changed) => changed.map((share) => percent(share)).join(' / ');
    const of = (what, changes) =>
      changes.map(({ share, changed, equation }) => [
        ...[name, what, percent(share), shares(changed)],
        ...[0, 1, 2, 3].map((c) => (equation === undefined ? '–' : percent(equation.expected[c]))),
        equation?.nearest.map((c) => (c === MOST_CRITICAL ? `≥ ${c}` : c)).join(' / ') ?? '–',
      ]);
    const control = (what, { changed }) => [name, what, '–', shares(changed), '–', '–', '–', '–', '–'];
    return [
      ...of('replaced', corruption),
      ...of('swapped', swaps),
      control('the same input again', controls.again),
      control('another token of the input', controls.anotherToken),
    ];
  });
  const head = `inputs (number) | other tokens | share | at another expert: ${r.reports[0].layers.join(' / ')}`;
  const equations = [1, 2, 3, 4].map((c) => `equation 2, c = ${c}`).join(' | ');
  return text(r, `${head} | ${equations} | nearest c`, rows);
}

function passParts() {
  const r = result('pass-parts');
  const rows = r.runs.map(({ experts, system, passes, parts, bytes }) => {
    const all = PART_NAMES.reduce((sum, name) => sum + parts[name], 0);
    const shares = PART_NAMES.map((name) => percent(parts[name] / all));
    const where = system === 'resident' ? 'resident, 100 %' : `${system}, ${r.budget}`;
    return [experts, where, (all / r.inputs).toFixed(1), ...shares, mib(bytes / r.inputs), passes];
  });
  const head = `experts of a layer | tables, experts in memory | ms per sentence | ${PART_NAMES.join(' | ')}`;
  const about =
    `Switch-base shape with ${r.layers} + ${r.decoderLayers} layers, ${r.dtype} experts, random weights; ` +
    `${r.inputs} sentences of SST-2, each once. What resident loads are first loads.`;
  return text(r, `${head} | loaded per sentence | passes`, rows, about);
}

function activeExperts() {
  const r = result('active-experts');
  const counts = [...new Set(r.runs.map(({ active }) => active))];
  const kinds = [...new Set(r.runs.map(({ format, activations }) => `${format} × ${activations}`))];
  const msOf = (kind, active) =>
    r.runs.find((run) => `${run.format} × ${run.activations}` === kind && run.active === active).ms;
  const rows = kinds.map((kind) => [
    kind,
    ...counts.map((n) => `${msOf(kind, n).toFixed(2)} (${times(msOf('f32 × f32', n) / msOf(kind, n))})`),
  ]);
  const about = `${r.tokens} tokens through a layer of ${r.dModel} × ${r.dFf}, ${r.threads} threads, medians of ${r.rounds} rounds.`;
  const head = counts.map((n) => `${n} active, ms (throughput ÷ f32)`);
  return text(r, ['weights × activations', ...head].join(' | '), rows, about);
}

function batchPruning() {
  const r = result('batch-pruning');
  const rows = r.runs.map(({ budget, beams, batch, outputTokens, pruned, whole }) => [
    ...[budget, beams, batch, times(whole.rows / pruned.rows)],
    ...[pruned, whole].map(({ wallMs }) => (outputTokens / (wallMs / 1000)).toFixed(0)),
    ...[times(whole.wallMs / pruned.wallMs), times(whole.cpuMs / pruned.cpuMs)],
  ]);
  const head = 'experts in memory | beams | batch | rows without ÷ with | tokens/s with pruning | without';
  const about = `${r.inputs} sentences of SST-2, ${r.threads} threads, medians of ${r.rounds} rounds.`;
  return text(r, `${head} | with ÷ without | the same by processor time`, rows, about);
}

const typeName = ({ dtype, group }) => (group === undefined ? dtype : `${dtype}, groups of ${group}`);
const points = (run, reference) => {
  const change = 100 * (run.accuracy - reference.accuracy);
  return `${change > 0 ? '+' : ''}${change.toFixed(2).replace('-', '−')}`;
};

/** Accuracy on the tasks of a model by element type. */
function quantized(model) {
  const r = result(`quantized-accuracy-${model}`);
  const [{ tasks: plain }] = r.runs;
  const names = Object.keys(plain);
  const cells = ({ perplexity, ...own }, name) =>
    perplexity === undefined
      ? `${percent(own.accuracy, 2)} (${points(own, plain[name])}), ${own.flipped}`
      : `${perplexity.toFixed(2)} (${(perplexity / plain[name].perplexity).toFixed(4)}×)`;
  const rows = r.runs.map(({ experts, control, dense, activations, expertBlockBytes, tasks }) => [
    control === undefined ? typeName(experts) : `control: ${control}`,
    ...[dense.dtype, activations, `${(expertBlockBytes / 1024).toFixed(0)} KiB`],
    ...names.map((name) => cells(tasks[name], name)),
  ]);
  const task = r.task ?? 'sst2';
  const zeros = r.runs.find(({ control }) => control === 'experts of zeros');
  const told = isTold(zeros.tasks[task].lost) ? 'tells' : 'cannot tell';
  const head = names.map((name) =>
    plain[name].perplexity === undefined
      ? `${dataTitle(name)}: accuracy (points), answers that differ of ${plain[name].inputs}`
      : `${name}: perplexity (ratio)`,
  );
  const about = `Accuracy (${dataTitle(task)}) ${told} f32 from experts of zeros (95 % interval of the paired difference).`;
  return text(r, ['experts | dense weights | activations | one expert', ...head].join(' | '), rows, about);
}

function trainTime() {
  const r = result('train-time');
  const pair = (shares) => shares.map((share) => percent(share)).join(' / ');
  const rows = r.rows.map(({ layer, token, hits, way }) => [layer, pair(token), pair(hits), pair(way)]);
  const about = `${fixed(1)(r.minutes)} minutes with ${r.threads} threads; top-1 / top-3 hits.`;
  return text(r, `layer | token table | ${r.network} | way from token to 100 %`, rows, about);
}

function collectives() {
  const r = result('collectives');
  const WAYS = ['padded', 'two-phase', 'hierarchical', 'expert slices', 'tensor slices'];
  const rows = r.runs.map(({ routing, experts, topK, tokens, ranks, transport, ways }) => {
    const of = Object.fromEntries(ways.map((way) => [way.way, way]));
    const cells = WAYS.map((name) => of[name] && `${of[name].ms.toFixed(2)} (${(of[name].bytes / 1024).toFixed(0)})`);
    const over = ['bytes', 'ms'].map((figure) => times(of.padded[figure] / of['two-phase'][figure]));
    const about = `${routing}, ${topK} of ${experts}`;
    return [about, tokens, ranks, transport, ...cells.map((cell) => cell ?? '–'), ...over];
  });
  const about =
    'One layer, ms (KiB that ranks send each other). Every rank is a process of **one machine** with 2 cores, so 4 ' +
    `share them; no network is between them. Experts of ${r.width} × ${r.hidden} in float32, medians of ${r.rounds} ` +
    'rounds, the slowest rank; each way gives the layer of one process within float32 rounding. Padded: as many rows ' +
    'for every expert as the fullest one has, none dropped, all computed. Two-phase: sizes, then exactly the rows. ' +
    'Hierarchical: inside nodes of two ranks, then between them, 24 messages in place of 36. Expert slices: the two ' +
    'ranks of a node halve each of its experts; tensor slices: all ranks divide every expert.\n\n' +
    'The papers, on GPUs: dynamic gating with two-phase all-to-all has 6.21 to 11.23 times the throughput of static ' +
    'gating for a language model, 5.75 to 10.98 for an MT encoder, 2.58 to 5.71 for its decoder ("Towards MoE ' +
    'Deployment"). Hierarchical all-to-all has G + p/G in place of p hops for twice the bytes (DeepSpeed-MoE, ' +
    'arXiv:2201.05596).';
  const head = `routing, experts | tokens | ranks | over | ${WAYS.join(' | ')} | padded ÷ two-phase: bytes | time`;
  return text(r, head, rows, about);
}

function placement() {
  const r = result('collectives');
  const rows = r.placements
    // A token with one expert loads one share, wherever that is.
    .filter(({ index }) => index < 1)
    .map(({ model, batchTokens, shares, ...ways }) => [
      ...[model, batchTokens, shares, percent(1 / shares)],
      ...[ways.index, ways.greedy, ways.antiCorrelated].map((part) => percent(part)),
    ]);
  const about =
    'Part of a batch’s (token, expert) choices that the busiest share computes, mean of batches and layers. Recorded ' +
    'routing of held-out nouns (switch-words) and SST-2: the first half places the experts, the second is measured.';
  return text(r, 'model | tokens a batch | shares | even | by index | greedy | anti-correlated', rows, about);
}

export const paperTables = {
  collectives,
  placement,
  'replay-misses': replayMisses,
  'replay-short': replayShort,
  gating,
  dependency,
  'pass-parts': passParts,
  'active-experts': activeExperts,
  'batch-pruning': batchPruning,
  'quantized-card': () => quantized('switch-mini'),
  'quantized-card-words': () => quantized('switch-words'),
  'train-time': trainTime,
};
