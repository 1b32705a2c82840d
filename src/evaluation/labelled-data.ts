/** Inputs of a JSON-lines file with the label of each line. */
import { SidaError } from '../errors.js';
import { type DataSource, readInputs, readRows } from '../trace/data-file.js';

export interface DataLine {
  /** From 1. */
  line: number;
  text: string;
  /** Index of its label; undefined where no labels are asked for. */
  label?: number;
}

interface LabelledSource extends DataSource {
  labels?: readonly string[];
  /** First lines only. */
  limit?: number;
}

/** Throws invalid_request naming the line whose label is missing or none of the labels. */
export async function readLabelled({ labels, limit, ...source }: LabelledSource): Promise<DataLine[]> {
  const texts = await readInputs(source);
  const rows = (await readRows(source.file)).slice(0, limit);
  return rows.map(({ line, row }, i) => {
    if (labels === undefined) return { line, text: texts[i]! };
    return { line, text: texts[i]!, label: labelOf(row.label, labels, `${source.file}, line ${line}`) };
  });
}

/** A label is its name, or its index. */
function labelOf(value: unknown, labels: readonly string[], where: string): number {
  const expected = `expected a label from 0 to ${labels.length - 1}, or one of ${labels.join(', ')}`;
  if (value === undefined) {
    throw new SidaError({ code: 'invalid_request', message: `${where} has no field "label": ${expected}` });
  }
  const named = labels.indexOf(String(value));
  if (named >= 0) return named;
  if (Number.isInteger(value) && labels[value as number] !== undefined) return value as number;
  throw new SidaError({
    code: 'invalid_request',
    message: `${where}: ${expected}, found ${JSON.stringify(value)}`,
  });
}
