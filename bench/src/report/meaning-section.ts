/** What the figures mean, in five sentences from the figures alone, losses first. */
import { PREDICTING, TRAINED, UNPREDICTED } from '../scenarios/systems.js';
import type { BenchFile } from './bench-file.js';
import { type ComparedRow, comparedRows, rangeText, withValue } from './compared-rows.js';
import { linkTitle, percent, shareName, times } from './format.js';
import { groupTitle } from './groups.js';
import { qualities, wayOf } from './quality.js';
import {
  bytesOver,
  hashBuilding,
  overBelady,
  overBestBlind,
  overBlind,
  overSystem,
  overTrueTables,
} from './ratios.js';
import type { Section } from './section.js';

/** Throughputs that differ by less count as equal. */
const EQUAL = 0.1;
/** A larger share of the pass is more than hash building may take. */
const HASH_BUILDING = 0.05;
const WAY = 0.95;

const NAMES: Record<(typeof UNPREDICTED)[number], string> = {
  lru: 'on-demand LRU',
  none: '`--predictor none`',
};
/** The default first. */
const BESIDE = UNPREDICTED.toReversed();

export function meaningSection(file: BenchFile): Section {
  return {
    id: 'meaning',
    title: 'What it means',
    about: [],
    sentences: [exactLosses(file), routedLosses(file), bytesMoved(file), building(file), quality(file)],
    tables: [],
    reading: [],
  };
}

const countOf = (ratios: readonly { value: number }[], limit: (value: number) => boolean) =>
  `${ratios.filter(({ value }) => limit(value)).length} of ${ratios.length} rows`;

/** How many rows are slower, equal and faster. */
function standing(ratios: readonly { value: number }[]): string {
  const count = (is: (value: number) => boolean) => ratios.filter(({ value }) => is(value)).length;
  const slower = count((value) => value < 1 - EQUAL);
  const faster = count((value) => value > 1 + EQUAL);
  const equal = ratios.length - slower - faster;
  return `slower in ${slower} of ${ratios.length} rows, equal within ${percent(EQUAL, 0)} in ${equal} and faster in ${faster}`;
}

/** The trained predictors of which there are rows. */
function named(rows: readonly ComparedRow[]): string {
  const names = TRAINED.filter((name) => rows.some(({ measurement }) => measurement.system === name));
  return (names.length > 0 ? names : TRAINED).map((name) => `\`${name}\``).join(', ');
}

function behind(rows: readonly ComparedRow[]): string {
  const parts = BESIDE.map((other) => {
    const ratios = withValue(rows, (measurement, group) => overSystem(measurement, other, group));
    if (ratios.length === 0) return `the throughput beside ${NAMES[other]} is not measured`;
    return `beside ${NAMES[other]} it is ${standing(ratios)}`;
  });
  return parts.join(', and ');
}

/** What the rows say beside the best default that predicts nothing. */
function worth(rows: readonly ComparedRow[]): string {
  const ratios = withValue(rows, (measurement, group) => overSystem(measurement, 'none', group));
  const slower = ratios.filter(({ value }) => value < 1 - EQUAL).length;
  const faster = ratios.filter(({ value }) => value > 1 + EQUAL).length;
  if (slower === faster) return 'costs as often as it pays';
  return slower > faster
    ? 'costs time more often than it saves any, beside the default without it'
    : 'saves time more often than it costs any, beside the default without it';
}

function exactLosses(file: BenchFile): string {
  const rows = comparedRows(file, TRAINED);
  const ratios = withValue(rows, (measurement, group) => overSystem(measurement, 'lru', group));
  const ends = [...ratios].sort((a, b) => a.value - b.value);
  const place = (row: (typeof ends)[number]) =>
    `${times(row.value)} (${groupTitle(row.group)}, ${shareName(row.measurement.scenario.share)})`;
  const span =
    ends.length === 0 ? '' : `; it has from ${place(ends[0]!)} to ${place(ends.at(-1)!)} of LRU’s throughput`;
  const best = withValue(rows, overBestBlind);
  const beaten =
    best.length === 0
      ? ''
      : `, and beside the best that predicts nothing in the same server ${standing(best)}`;
  const links = [...new Set(rows.map(({ group }) => linkTitle(group.scenario)))];
  return `Prediction with exact answers (${named(rows)}; ${links.join('; ')}) ${worth(rows)}: ${behind(rows)}${beaten}${span}.`;
}

function routedLosses(file: BenchFile): string {
  const parts = PREDICTING.filter((name) => !TRAINED.includes(name)).map(
    (name) => `\`${name}\`: ${behind(comparedRows(file, [name]))}`,
  );
  const paper =
    '`paper` is the SiDA paper’s system (tables route, FIFO evicts; by `attention` where a predictor has no `lstm`)';
  return `Prediction that routes, of which ${paper}: ${parts.join('; ')}.`;
}

function bytesMoved(file: BenchFile): string {
  const rows = comparedRows(file, TRAINED);
  const lru = withValue(rows, (measurement, group) => bytesOver(measurement, 'lru', group));
  const none = withValue(rows, (measurement, group) => bytesOver(measurement, 'none', group));
  const blind = withValue(rows, overBlind);
  const known = withValue(rows, overTrueTables);
  const least = withValue(rows, overBelady);
  const range = (ratios: readonly { value: number }[]) =>
    ratios.length === 0
      ? 'not measured'
      : rangeText(
          ratios.map(({ value }) => value),
          times,
        );
  return `Bytes of ${named(rows)}: more than LRU’s in ${countOf(lru, (value) => value > 1)} (${range(lru)}), than those of \`--predictor none\` in ${countOf(none, (value) => value > 1)} (${range(none)}), and than those of the best system that predicts nothing in ${countOf(blind, (value) => value > 1)} (${range(blind)}); over the same planner with true tables ${range(known)}; over Belady’s bound ${range(least)}${least.length === 0 ? '' : ` in ${least.length} rows`}.`;
}

function building(file: BenchFile): string {
  const rows = comparedRows(file, TRAINED);
  const shares = withValue(rows, hashBuilding);
  const range = rangeText(
    shares.map(({ value }) => value),
    percent,
  );
  return `Hash building of ${named(rows)} takes ${range} of the passes’ time, more than ${percent(HASH_BUILDING, 0)} in ${countOf(shares, (value) => value > HASH_BUILDING)}.`;
}

function quality(file: BenchFile): string {
  const ways = qualities(file).map(({ quality: own }) => wayOf(own));
  const told = ways.filter((way) => typeof way === 'number');
  const short = told.filter((way) => way < WAY).length;
  const lost = ways.filter((way) => way === null).length;
  const alone = ways.filter((way) => way === undefined).length;
  const missed = `${short} miss ${percent(WAY, 0)} of the way from experts of zeros to exact`;
  const rest = `for ${lost} these controls cannot tell, ${alone} were measured without controls, and ${told.length - short} reach it`;
  return `Quality of predicted routing: of ${ways.length} figures of accuracy and perplexity ${missed}, ${rest}.`;
}
