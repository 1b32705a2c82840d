/** `sida convert`: packs a checkpoint. `sida serve` does the same on first use. */

import { resolve } from 'node:path';
import { Command } from 'commander';
import { convertCheckpoint } from '../checkpoint/converter.js';
import { verifyPack } from '../checkpoint/manifest.js';
import { verifyWeights } from '../checkpoint/verify-weights.js';
import { WEIGHT_OPTIONS, weightChoices } from '../config/engine-config.js';
import { resolveOptions } from '../config/resolve.js';
import type { VerifiedWeights } from '../native/addon-types.js';
import { printLines } from '../text/print.js';
import { addFlags, givenFlags } from './flags.js';
import { Progress } from './progress.js';

export function convertCommand(): Command {
  const command = new Command('convert')
    .argument('<model>', 'Hugging Face checkpoint, or GGUF file; of a split one any part')
    .requiredOption('--out <dir>', 'directory of the packed model; appears whole or not at all')
    .option(
      '--verify',
      'read the pack again: compare every file with its sha256 and every weight with the checkpoint',
    )
    .addHelpText(
      'after',
      '\nStart an interrupted conversion again, and it continues where it stopped.\n' +
        '\nExamples:\n  sida convert models/switch-words --out packs/switch-words\n' +
        '  sida convert switch-base-128 --out packs/base-128 --experts int8 --verify\n' +
        '  sida convert olmoe-7b-Q8_0.gguf --out packs/olmoe-7b\n' +
        '  sida convert switch-base-128 --out packs/base-128-int4 --experts int4 --group 32 --dense int8',
    )
    .action(convert);
  return addFlags(command, WEIGHT_OPTIONS);
}

async function convert(dir: string, values: Record<string, unknown>): Promise<void> {
  const formats = weightChoices(
    resolveOptions(WEIGHT_OPTIONS, { flags: givenFlags(values), env: process.env }),
  );
  const progress = new Progress();
  try {
    const model = resolve(dir);
    const out = resolve(String(values.out));
    const onProgress = progress.show.bind(progress);
    const { pack, resumedFrom } = await convertCheckpoint({
      model,
      out,
      ...formats,
      onProgress,
      onLine: progress.say.bind(progress),
    });
    progress.stop();
    let verified: VerifiedWeights | undefined;
    if (values.verify === true) {
      await verifyPack(pack, { onProgress });
      verified = await verifyWeights({ model, pack, onProgress });
      progress.stop();
    }
    const notes = [
      resumedFrom > 0 && `${resumedFrom} experts were packed before`,
      verified !== undefined && 'verified',
    ].filter(Boolean);
    printLines(`${pack}${notes.length > 0 ? ` (${notes.join(', ')})` : ''}`);
    if (verified !== undefined) printLines(describeErrors(verified));
  } finally {
    progress.stop();
  }
}

function describeErrors(verified: VerifiedWeights): string {
  const percent = (share: number) => `${(100 * share).toPrecision(3)} %`;
  const parts = Object.entries(verified).map(
    ([matrix, { largest, bound }]) =>
      `${matrix} ${largest === 0 ? 'none' : `${percent(largest)} of at most ${percent(bound)}`}`,
  );
  return `largest error, relative to the largest weight of its scale: ${parts.join('; ')}`;
}
