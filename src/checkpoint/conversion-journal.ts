/** The journal of an unfinished pack, by which a later run continues an interrupted one. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../files/json-file.js';
import { writeWholeFile } from '../files/whole-file.js';
import type { PackFormats, PackWriter } from '../native/addon-types.js';
import { expertsIn } from '../native/model-shape.js';
import { PACK_VERSION } from './manifest.js';
import { denseFormatSchema, expertFormatSchema, sameFormat } from './weight-format.js';

/** It is written after experts have been synced. */
export const JOURNAL = 'journal.json';

const journalSchema = z.object({
  version: z.literal(PACK_VERSION),
  /** Of the checkpoint; see ModelIdentity. */
  weights: z.string(),
  experts: expertFormatSchema,
  dense: denseFormatSchema,
  /** Number of experts that are written and synced. */
  done: z.number().int().nonnegative(),
});

export interface Journal extends PackFormats {
  version: typeof PACK_VERSION;
  weights: string;
  done: number;
}

/** Whether two runs make the same pack. */
export function sameWork(a: Journal, b: Journal): boolean {
  return a.weights === b.weights && sameFormat(a.experts, b.experts) && sameFormat(a.dense, b.dense);
}

/** The journal of an interrupted run, unless it is missing or damaged. */
function readJournal(partial: string): Journal | undefined {
  try {
    return readJsonFile(partial, JOURNAL, journalSchema, { code: 'pack_invalid' });
  } catch {
    return undefined;
  }
}

/** The number of experts that an interrupted run with the same settings left complete on the disk. */
export async function resumable(partial: string, plan: Journal, writer: PackWriter): Promise<number> {
  const journal = readJournal(partial);
  if (journal === undefined || !sameWork(journal, plan)) return 0;
  const { done } = journal;
  const { layout } = writer;
  const size = (name: string) =>
    stat(join(partial, name)).then(
      (found) => found.size,
      () => -1,
    );
  const total = expertsIn(layout.experts);
  if (done > total || (await size(layout.dense.file)) !== layout.dense.bytes) return 0;
  const written = writer.expertBytes(done);
  return written > 0 && (await size(layout.experts.file)) < written ? 0 : done;
}

export async function writeJournal(partial: string, journal: Journal): Promise<void> {
  await writeWholeFile(join(partial, JOURNAL), JSON.stringify(journal), { durable: false });
}
