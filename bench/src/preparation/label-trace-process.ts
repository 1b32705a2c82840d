/** Process entry: a trace of texts and labels. Reads its work on standard input. */
import { readFileSync } from 'node:fs';
import { describeFailure } from '../../../dist/cli/exit.js';
import { type LabelTraceWork, recordLabels } from './label-trace.js';

try {
  await recordLabels(JSON.parse(readFileSync(0, 'utf8')) as LabelTraceWork);
} catch (error) {
  process.stderr.write(`${describeFailure(error).join('\n')}\n`);
  process.exit(1);
}
