/** `sida bench placement`: experts of a recorded trace over devices. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { number, numbers } from '../../../dist/cli/lists.js';
import { Progress } from '../../../dist/cli/progress.js';
import { UsageError } from '../../../dist/config/resolve.js';
import { parseShare } from '../../../dist/text/bytes.js';
import { placementChart } from '../charts/placement.js';
import { renderSvg } from '../charts/svg.js';
import { comparePlacements, type PlacementOptions } from '../placement/compare-placements.js';
import { openTrace } from '../replay/open-trace.js';
import { describePlacement } from './placement-report.js';

const HELP = `
TRACE is what \`sida bench replay\` takes. Experts are placed by the first part of the trace and measured on the rest.
bench/placement.md says what the strategies do and how to read the figures.

Examples:
  sida bench placement traces/qwen.csv.gz
  sida bench placement traces/qwen.csv.gz --devices 4 --batch-tokens 16 --svg charts
  sida bench placement traces/sst2 --learn 25% --batch-tokens 256 --json`;

export function placementCommand(): Command {
  return new Command('placement')
    .description(
      'Place the experts of a recorded trace on several devices, and print the largest load of a device by strategy',
    )
    .argument('<trace>', 'directory of `sida trace`, or CSV file')
    .option('--devices <list>', 'numbers of devices', '2,4,8')
    .option('--learn <share>', 'first part of the trace, by which placements are chosen', '50%')
    .option('--batch-tokens <n>', 'join turns of a layer until a batch has this many tokens', '1')
    .option('--limit <n>', 'use only the first batches')
    .option('--svg <dir>', 'write placement.svg there')
    .option('--json', 'print JSON, with the loads of each layer')
    .addHelpText('after', HELP)
    .action(placeTrace);
}

async function placeTrace(path: string, values: Record<string, unknown>): Promise<void> {
  const { limit, ...options } = requestOf(values);
  const progress = new Progress();
  try {
    const trace = await openTrace(resolve(path), {
      // Loads are counted in tokens.
      expertBytes: 1,
      onBytes: (done, total) => progress.show({ phase: 'read', done, total }),
    });
    progress.stop();
    const report = comparePlacements({ ...trace, batches: trace.batches.slice(0, limit) }, options);
    if (values.svg !== undefined) {
      const directory = resolve(String(values.svg));
      await mkdir(directory, { recursive: true });
      await writeFile(join(directory, 'placement.svg'), await renderSvg(placementChart(report)));
    }
    process.stdout.write(
      `${values.json === true ? JSON.stringify(report, null, 2) : describePlacement(report)}\n`,
    );
  } finally {
    progress.stop();
  }
}

/** Throws UsageError. */
function requestOf(values: Record<string, unknown>): PlacementOptions & { limit?: number } {
  const learn = parseShare(String(values.learn));
  if (learn === undefined || learn === 1) {
    throw new UsageError(
      `Expected --learn to be a share below 100% such as 50%, found ${JSON.stringify(values.learn)}`,
    );
  }
  return {
    devices: numbers('devices', String(values.devices), 1, 65_536).sort((a, b) => a - b),
    learn,
    batchTokens: number('batch-tokens', String(values.batchTokens), 1, 1e9),
    ...(values.limit !== undefined && { limit: number('limit', String(values.limit), 2, 1e9) }),
  };
}
