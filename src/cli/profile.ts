/** `sida profile`: summarizes a recorded profile and draws it. */

import { writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { UsageError } from '../config/resolve.js';
import type { Interval } from '../profile/intervals.js';
import { defaultWindow, drawTimeline } from '../profile/picture.js';
import { type ProfileSummary, summarize } from '../profile/summary.js';
import { readTimeline, type Timeline } from '../profile/timeline.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines, warnLines } from '../text/print.js';
import { tableLines } from './table.js';

export function profileCommand(): Command {
  return new Command('profile')
    .description('Sum up a profile of `sida serve --profile`, and draw it')
    .argument('<file>', 'Chrome trace; chrome://tracing and ui.perfetto.dev open it too')
    .option('--svg <file>', 'draw a window of it into this file')
    .option('--from <ms>', 'start of the window, from the start of the recording')
    .option('--for <ms>', 'length of the window; without both, a batch in the middle')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida profile profile.json\n  sida profile profile.json --svg overlap.svg --from 1200 --for 250',
    )
    .action(async (file: string, values: Record<string, string | true | undefined>) => {
      const timeline = await readTimeline(file);
      const window = windowOf(values, timeline);
      const summary = summarize(timeline);
      if (values.json === true) printJson(summary);
      else printLines(...describeProfile(summary));
      if (typeof values.svg !== 'string') return;
      await writeFile(values.svg, drawTimeline(timeline, window));
      warnLines(
        `${values.svg} shows ${(window.end - window.begin).toFixed(1)} ms from ${window.begin.toFixed(1)} ms on`,
      );
    });
}

function windowOf(
  { from, for: span }: Record<string, string | true | undefined>,
  timeline: Timeline,
): Interval {
  if (from === undefined && span === undefined) return defaultWindow(timeline);
  const end = timeline.about.seconds * 1000;
  const begin = from === undefined ? 0 : milliseconds('--from', from);
  if (begin >= end) {
    throw new UsageError(
      `Expected the "--from" option to lie in the profile's ${end.toFixed(1)} ms, but got ${begin}`,
    );
  }
  return { begin, end: span === undefined ? end : Math.min(end, begin + milliseconds('--for', span)) };
}

function milliseconds(flag: string, text: string | true): number {
  const value = Number(text);
  if (
    String(text).trim() !== '' &&
    value >= 0 &&
    Number.isFinite(value) &&
    (value > 0 || flag === '--from')
  ) {
    return value;
  }
  throw new UsageError(
    `Expected the "${flag}" option to be a number of milliseconds, but got ${JSON.stringify(text)}; for example 250`,
  );
}

function describeProfile(summary: ProfileSummary): string[] {
  const { model, seconds, events, dropped, passes, stall, transfers, tables, ops } = summary;
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
  const ms = (value: number) => value.toFixed(3);
  const loss = dropped === 0 ? 'none dropped' : `${dropped} dropped, so that its end is missing`;
  const rows = ops.map((op) => [
    op.thread,
    op.name,
    op.category,
    String(op.count),
    ms(op.totalMs),
    ms(op.selfMs),
    op.shareOfPasses === null ? '' : percent(op.shareOfPasses),
    ms(op.p50Ms),
    ms(op.p99Ms),
  ]);
  const head = ['thread', 'op', 'category', 'count', 'total ms', 'self ms', 'of passes', 'p50 ms', 'p99 ms'];
  return [
    `${model}: ${events} events in ${seconds.toFixed(2)} s, ${loss}`,
    `passes     ${passes.count}, ${ms(passes.ms)} ms`,
    `stalls     ${ms(stall.ms)} ms, ${percent(stall.shareOfPasses)} of the passes`,
    `transfers  ${transfers.count}, ${formatBytes(transfers.bytes)}, busy ${ms(transfers.ms)} ms: ${percent(transfers.behindCompute)} behind compute, ${percent(transfers.whileStalled)} while a pass waited, ${percent(transfers.betweenPasses)} between passes`,
    `tables     ${tables.count}, ${ms(tables.ms)} ms, ${percent(tables.shareOfPasses)} of the passes; ${percent(tables.besidePasses)} of it beside them`,
    '',
    ...tableLines('lllrrrrrr', [head, ...rows]),
  ];
}
