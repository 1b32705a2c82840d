/** `sida train --search`: trains each candidate and prints its hit rates and its cost. */

import type { TrainingOptionName } from '../predictor/training/options.js';
import { TRAINING_OPTIONS } from '../predictor/training/options.js';
import { percent } from '../predictor/training/predictor-card.js';
import {
  type CandidateResult,
  candidatesOf,
  DEFAULT_GRIDS,
  type SearchEvents,
  searchOptions,
} from '../predictor/training/search.js';
import type { TrainRequest } from '../predictor/training/setup.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { tableLines } from './table.js';
import type { TrainProgress } from './train-progress.js';

interface SearchCommand {
  request: TrainRequest;
  given: Partial<Record<TrainingOptionName, string>>;
  grid: string | undefined;
  out: string;
  json: boolean;
}

function optionsText(varied: CandidateResult['varied']): string {
  return (Object.entries(varied) as [TrainingOptionName, string][])
    .map(([name, value]) => `${TRAINING_OPTIONS[name].flag}=${value}`)
    .join(' ');
}

export async function search(
  { request, given, grid = DEFAULT_GRIDS[request.network], out, json }: SearchCommand,
  events: SearchEvents,
  progress: TrainProgress,
): Promise<void> {
  const candidates = candidatesOf(grid, request.network, given);
  const results = await searchOptions(request, candidates, out, {
    ...events,
    onCandidate: ({ varied }, i) => progress.say(`${i + 1} of ${candidates.length}: ${optionsText(varied)}`),
  });
  progress.stop();
  if (json) {
    printJson({ directory: out, candidates: results }, 1);
    return;
  }
  const ranked = [...results].sort((a, b) => b.hits[0]! - a.hits[0]!);
  const rows = ranked.map((result) => [
    optionsText(result.varied),
    percent(result.hits[0]!),
    percent(result.hits.at(-1)!),
    result.loss.toFixed(3),
    result.microsecondsPerToken.toFixed(1),
    formatBytes(result.bytes),
    String(result.steps),
    result.minutes.toFixed(1),
  ]);
  const head = ['options', ...(results[0]?.named ?? []), 'loss', 'µs/token', 'memory', 'steps', 'minutes'];
  printLines(...tableLines('lrrrrrrr', [head, ...rows]));
}
