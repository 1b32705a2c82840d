/** `sida ask`: one question and its answer. */
import { text as textOf } from 'node:stream/consumers';
import { Command } from 'commander';
import { UsageError } from '../config/resolve.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines, printText, warnLines } from '../text/print.js';
import { EXIT, endProcess } from './exit.js';
import { tableLines } from './table.js';
import { openTalker, requireModel, talkFlags } from './talk/open-talker.js';
import type { Said, Talker } from './talk/talker.js';

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
    .option('--quote', 'print what the answer would cost, and ask nothing')
    .action(
      async (
        named: string | undefined,
        words: string[],
        { json, quote, ...values }: Record<string, unknown>,
      ) => {
        requireModel(named, values);
        // A server has a model, so a question in quotation marks may come first.
        const asks = values.url !== undefined && words.length === 0 && /\s/.test(named ?? '');
        const [model, question] = asks ? [undefined, named!] : [named, await questionOf(words)];
        const { talker, settings, system } = await openTalker(model, values);
        try {
          const messages: Said[] = [{ role: 'user', content: question }];
          if (system !== undefined) messages.unshift({ role: 'system', content: system });
          if (quote === true) {
            const told = await talker.quote(messages, settings);
            if (json === true) printJson(told);
            else printLines(...quoteLines(told));
          } else if (json === true) printJson(await talker.whole(messages, settings));
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

function quoteLines(quote: Awaited<ReturnType<Talker['quote']>>): string[] {
  const { prompt_tokens: prompt, max_tokens: most, queue_seconds: queue, jobs_ahead: ahead } = quote;
  const count = (value: number) => value.toLocaleString('en-US');
  const seconds = (value: number) => `${Number(value.toPrecision(3))} s`;
  const row = (name: string, { p50, p90 }: typeof quote.seconds, shown: (value: number) => string) => [
    ...[name, shown(p50), shown(p90)],
  ];
  const table = tableLines('lrr', [
    ['', '50 %', '90 %'],
    row('experts needed', quote.experts, count),
    row('bytes to move', quote.bytes_moved, formatBytes),
    row('first token', quote.first_token_seconds, seconds),
    row('whole answer', quote.seconds, seconds),
  ]);
  const basis =
    quote.measured_answers > 0
      ? `measured on ${quote.measured_answers} answers`
      : 'nothing was measured yet: from the shape of the model';
  return [
    ...table,
    `${count(prompt)} tokens of prompt, up to ${count(most)} of answer; ${basis}`,
    ...(ahead > 0 ? [`${count(ahead)} requests are before it, for ${seconds(queue)}`] : []),
  ];
}

async function questionOf(words: readonly string[]): Promise<string> {
  const fromInput = words.length === 0 || (words.length === 1 && words[0] === '-');
  if (fromInput && process.stdin.isTTY) warnLines('Type the question; Ctrl-D on a new line ends it.');
  const question = fromInput ? await textOf(process.stdin) : words.join(' ');
  if (question.trim() === '') throw new UsageError('The question is empty');
  return question.trimEnd();
}
