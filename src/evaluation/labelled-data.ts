/** Inputs of a JSON-lines file with the label of each line. */
import { SidaError } from '../errors.js';
import { type DataSource, readInputs, readRows } from '../trace/data-file.js';

export interface DataLine {
  /** Line of the file, from 1. */
  line: number;
  text: string;
  /** Index of its label. Undefined when no labels were requested. */
  label?: number;
}

interface LabelledSource extends DataSource {
  labels?: readonly string[];
  /** Read only this many lines from the start. */
  limit?: number;
}

/** Throws invalid_request, which names the line, when a label is missing or not one of `labels`. */
export async function readLabelled({ labels, limit, ...source }: LabelledSource): Promise<DataLine[]> {
  const texts = await readInputs(source);
  const rows = (await readRows(source.file)).slice(0, limit);
  return rows.map(({ line, row }, i) => {
    if (labels === undefined) return { line, text: texts[i]! };
    return { line, text: texts[i]!, label: labelOf(row.label, labels, `${source.file}, line ${line}`) };
  });
}

/** The index of a label that is given by its name or its index. */
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
