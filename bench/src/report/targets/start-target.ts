/** P26: from the start of a server to its first answer, from bench/results/start.json. */
import { formatBytes } from '../../../../dist/text/bytes.js';
import { DASH, NOT_MEASURED } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

export interface Start extends Recorded {
  /** Of the pack. */
  bytes: number;
  budget: string;
  rounds: number;
  cold: { firstAnswerMs: number };
  /** With the pack in the page cache. */
  warm: { firstAnswerMs: number };
}

const MOST_SECONDS = 10;
/** A smaller pack says nothing of the target. */
const LEAST_BYTES = 15e9;

export function startTarget(found: Start | undefined): TargetRow {
  const row = {
    target: 'P26',
    what: 'start to the first answer, a pack of 17 GB and a budget of 5 GB, nothing in the page cache',
    limit: `≤ ${MOST_SECONDS} s`,
    command: recorded('node bench/scripts/start/start.mjs --pack DIR', found === undefined ? [] : [found]),
  };
  if (found === undefined)
    return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
  const [cold, warm] = [found.cold, found.warm].map(({ firstAnswerMs }) => firstAnswerMs / 1000) as [
    number,
    number,
  ];
  const large = found.bytes >= LEAST_BYTES;
  return {
    ...row,
    figure: `${cold.toFixed(1)} s (${formatBytes(found.bytes)}, ${found.budget})`,
    verdict: large ? judged([cold], (value) => value <= MOST_SECONDS) : NOT_MEASURED,
    inputs: `${found.rounds} rounds`,
    control: `pack in the page cache: ${warm.toFixed(1)} s`,
  };
}
