/** `sida bench`: measurements, one a command. */
import { Command } from 'commander';
import { replayCommand } from './bench-replay.js';

export function benchCommand(): Command {
  return new Command('bench')
    .description('Compare systems side by side')
    .addHelpText(
      'after',
      '\nExamples:\n  sida bench replay traces/qwen.csv.gz --cache 10%,25% --lookahead 1,4',
    )
    .addCommand(replayCommand());
}
