/** `sida convert`: packs a checkpoint, as `sida serve` does by itself on first use. */
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { convertCheckpoint } from '../checkpoint/converter.js';
import { verifyPack } from '../checkpoint/manifest.js';
import type { ExpertDtype } from '../native/addon-types.js';
import { EXIT } from './exit.js';
import { Progress } from './progress.js';

const INTERRUPT_MS = 1500;

interface Flags {
  out: string;
  experts: 'auto' | ExpertDtype;
  dense: 'auto' | ExpertDtype;
  verify?: true;
}

export function convertCommand(): Command {
  return new Command('convert')
    .description('Pack a Hugging Face checkpoint into blocks that can be read straight into the device')
    .argument('<dir>', 'Hugging Face checkpoint')
    .requiredOption('--out <dir>', 'directory of the packed model; appears whole or not at all')
    .addOption(dtype('--experts <type>', "element type of the experts; auto keeps the checkpoint's own"))
    .addOption(dtype('--dense <type>', 'element type of the other weights'))
    .option('--verify', 'read the pack again and compare every file with its sha256')
    .addHelpText(
      'after',
      '\nAn interrupted conversion goes on where it stopped when it is started again.\n' +
        '\nExamples:\n  sida convert models/switch-mini --out packs/switch-mini\n' +
        '  sida convert switch-base-128 --out packs/base-128 --experts bf16 --verify',
    )
    .action(convert);
}

function dtype(flags: string, help: string): Option {
  return new Option(flags, help).choices(['auto', 'f32', 'bf16']).default('auto');
}

async function convert(dir: string, { out, experts, dense, verify }: Flags): Promise<void> {
  const interruption = new AbortController();
  const interrupt = () => {
    interruption.abort(new Error('Interrupted; start it again to go on from here'));
    // A system call that never returns, on a dead mount for one, reads no signal.
    setTimeout(() => process.exit(EXIT.failure), INTERRUPT_MS).unref();
  };
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const progress = new Progress();
  const { signal } = interruption;
  try {
    const onProgress = progress.show.bind(progress);
    const { pack, resumedFrom } = await convertCheckpoint({
      model: resolve(dir),
      out: resolve(out),
      experts,
      dense,
      signal,
      onProgress,
    });
    progress.stop();
    if (verify) await verifyPack(pack, { signal, onProgress });
    progress.stop();
    const notes = [
      resumedFrom > 0 && `${resumedFrom} experts were packed before`,
      verify && 'verified',
    ].filter(Boolean);
    process.stdout.write(`${pack}${notes.length > 0 ? ` (${notes.join(', ')})` : ''}\n`);
  } catch (error) {
    // Streams report an abort in words of their own.
    throw signal.aborted ? signal.reason : error;
  } finally {
    progress.stop();
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  }
}
