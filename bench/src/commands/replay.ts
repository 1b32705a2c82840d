/** `sida bench replay`: the policies over a recorded routing trace. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { Command } from 'commander';
import { listOf, number, numbers } from '../../../dist/cli/lists.js';
import { Progress } from '../../../dist/cli/progress.js';
import { UsageError } from '../../../dist/config/resolve.js';
import { parseBytes, parseShare } from '../../../dist/text/bytes.js';
import { bytesChart, missChart } from '../charts/replay.js';
import { renderSvg } from '../charts/svg.js';
import { type CacheSize, type CompareOptions, compare } from '../replay/compare.js';
import { openTrace } from '../replay/open-trace.js';
import { POLICIES, type PolicyName } from '../replay/policies.js';
import type { RoutingTrace } from '../replay/routing-trace.js';
import { describeReplay } from './replay-report.js';

const HELP = `
TRACE is a directory of \`sida trace\`, or a CSV file (also gzipped) with the columns turn, phase (0 prefill, 1 decode), step,
layer and expert in order of time. bench/replay.md says what each policy does and how each figure is counted.

Examples:
  sida bench replay traces/qwen.csv.gz --cache 10%,25%,50% --lookahead 0,1,4,16
  sida bench replay traces/qwen.csv.gz --per-layer --policies lru,lfu,expert-buffering,belady --svg charts
  sida bench replay traces/sst2 --expert-bytes 128KiB --limit 500 --json`;

export function replayCommand(): Command {
  return new Command('replay')
    .description(
      'Replay a recorded routing trace, and print hits, bytes and the distance to Belady of every policy',
    )
    .argument('<trace>', 'directory of `sida trace`, or CSV file')
    .option(
      '--cache <list>',
      'sizes of the cache: shares of all experts, or numbers of experts',
      '10%,25%,50%',
    )
    .option(
      '--lookahead <list>',
      'batches (in decode, steps) that the policy sees ahead of the running one',
      '0,1,4,16',
    )
    .option('--policies <list>', `of ${POLICIES.join(', ')}`, 'all')
    .option('--shared', 'one cache for all layers (the default)')
    .option('--per-layer', 'a cache of equal size for each layer')
    .option('--learn <share>', 'first part of the trace, from which static-hot chooses its experts', '25%')
    .option('--limit <n>', 'use only the first batches')
    .option('--expert-bytes <size>', 'size of one expert, where the trace does not say')
    .option('--svg <dir>', 'write miss-rate.svg and bytes.svg there')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
    .action(replayTrace);
}

interface Request extends Omit<CompareOptions, 'caches' | 'onReplay'> {
  /** As the user wrote them. */
  caches: string[];
  expertBytes?: number;
  limit?: number;
}

async function replayTrace(path: string, values: Record<string, unknown>): Promise<void> {
  const request = requestOf(values);
  const progress = new Progress();
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const endIfStopped = () => {
    if (stopped) throw new Error('Interrupted');
  };
  try {
    const trace = limited(
      await openTrace(resolve(path), {
        expertBytes: request.expertBytes,
        onBytes: (done, total) => {
          endIfStopped();
          progress.show({ phase: 'read', done, total });
        },
      }),
      request.limit,
    );
    const report = await compare(trace, {
      ...request,
      caches: cachesOf(request, trace),
      onReplay: async (done, total) => {
        progress.show({ phase: 'replay', done, total });
        // Signals are handled between two replays. One turn of the event loop may end before it polls for them.
        await yieldToEvents();
        await yieldToEvents();
        endIfStopped();
      },
    });
    progress.stop();
    if (values.svg !== undefined) {
      const directory = resolve(String(values.svg));
      await mkdir(directory, { recursive: true });
      await writeFile(join(directory, 'miss-rate.svg'), await renderSvg(missChart(report)));
      await writeFile(join(directory, 'bytes.svg'), await renderSvg(bytesChart(report)));
    }
    process.stdout.write(
      `${values.json === true ? JSON.stringify(report, null, 2) : describeReplay(report)}\n`,
    );
  } finally {
    progress.stop();
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

/** Throws UsageError. */
function requestOf(values: Record<string, unknown>): Request {
  const given = (name: string) => (values[name] === undefined ? undefined : String(values[name]));
  if (values.shared === true && values.perLayer === true) {
    throw new UsageError('Expected --shared or --per-layer, found both');
  }
  const learn = parseShare(String(values.learn));
  if (learn === undefined) {
    throw new UsageError(`Expected --learn to be a share such as 25%, found ${JSON.stringify(values.learn)}`);
  }
  const size = given('expertBytes');
  const expertBytes = size === undefined ? undefined : parseBytes(size);
  if (size !== undefined && !(expertBytes! > 0)) {
    throw new UsageError(`Expected --expert-bytes to be a size such as 3MiB, found ${JSON.stringify(size)}`);
  }
  const limit = given('limit');
  return {
    caches: listOf('cache', String(values.cache)),
    lookaheads: numbers('lookahead', String(values.lookahead), 0, 64).sort((a, b) => a - b),
    policies: policiesOf(String(values.policies)),
    scope: values.perLayer === true ? 'per-layer' : 'shared',
    learn,
    ...(expertBytes !== undefined && { expertBytes }),
    ...(limit !== undefined && { limit: number('limit', limit, 1, 1e9) }),
  };
}

function policiesOf(text: string): PolicyName[] {
  if (text === 'all') return [...POLICIES];
  return listOf('policies', text).map((name) => {
    const found = POLICIES.find((known) => known === name);
    if (found !== undefined) return found;
    throw new UsageError(
      `Expected --policies to be of ${POLICIES.join(', ')}, found ${JSON.stringify(name)}`,
    );
  });
}

function limited(trace: RoutingTrace, limit: number | undefined): RoutingTrace {
  return limit === undefined ? trace : { ...trace, batches: trace.batches.slice(0, limit) };
}

/**
 * Throws UsageError for a cache of no expert, of more than there are, or of less than one per layer where each layer
 * has its own.
 */
function cachesOf({ caches, scope }: Request, { layers, experts }: RoutingTrace): CacheSize[] {
  const all = layers.length * experts;
  const least = scope === 'shared' ? 1 : layers.length;
  return caches.map((cache) => {
    const share = parseShare(cache);
    const slots = share === undefined ? Number(/^\d{1,9}$/.test(cache) ? cache : 0) : Math.round(share * all);
    if (slots >= least && slots <= all) return { cache, slots };
    const wanted = scope === 'shared' ? '' : ', one a layer at least';
    throw new UsageError(
      `Expected --cache to be shares such as 10% or ${least} to ${all} experts${wanted}, found ${JSON.stringify(cache)}`,
    );
  });
}
