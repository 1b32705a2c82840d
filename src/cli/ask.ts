/** `sida ask`: one question and its answer. */
import { text as textOf } from 'node:stream/consumers';
import { Command } from 'commander';
import { UsageError } from '../config/resolve.js';
import { printJson, printText, warnLines } from '../text/print.js';
import { EXIT, endProcess } from './exit.js';
import { openTalker, requireModel, talkFlags } from './talk/open-talker.js';
import type { Said } from './talk/talker.js';

export function askCommand(): Command {
  const command = new Command('ask')
    .argument('[model]', 'Hugging Face checkpoint, GGUF file or packed model with a chat template')
    .argument('[words...]', 'the question; - or nothing: from standard input')
    .addHelpText(
      'after',
      "\nExamples:\n  sida ask olmoe-mini What kind of thing is a violin\n  git diff | sida ask model.gguf --system 'Write a commit message'\n" +
        "  sida ask --url http://127.0.0.1:8080 'What kind of thing is a violin?'",
    );
  return talkFlags(command)
    .option('--json', 'print the answer as the HTTP API gives it')
    .action(
      async (named: string | undefined, words: string[], { json, ...values }: Record<string, unknown>) => {
        requireModel(named, values);
        // A server has a model, so a question in quotation marks may come first.
        const asks = values.url !== undefined && words.length === 0 && /\s/.test(named ?? '');
        const [model, question] = asks ? [undefined, named!] : [named, await questionOf(words)];
        const { talker, settings, system } = await openTalker(model, values);
        try {
          const messages: Said[] = [{ role: 'user', content: question }];
          if (system !== undefined) messages.unshift({ role: 'system', content: system });
          if (json === true) printJson(await talker.whole(messages, settings));
          else {
            await talker.answer(messages, settings, { onText: printText, onReasoning: () => undefined });
            printText('\n');
          }
        } finally {
          await talker.close();
        }
        endProcess(EXIT.ok);
      },
    );
}

async function questionOf(words: readonly string[]): Promise<string> {
  const fromInput = words.length === 0 || (words.length === 1 && words[0] === '-');
  if (fromInput && process.stdin.isTTY) warnLines('Type the question; Ctrl-D on a new line ends it.');
  const question = fromInput ? await textOf(process.stdin) : words.join(' ');
  if (question.trim() === '') throw new UsageError('The question is empty');
  return question.trimEnd();
}
