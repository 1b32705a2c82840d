/** `sida chat`: a conversation, line by line. */
import { Command } from 'commander';
import { UsageError } from '../config/resolve.js';
import { SidaError } from '../errors.js';
import { printFaint, printLines, printText, warnLines } from '../text/print.js';
import { EXIT, endProcess } from './exit.js';
import { runCommand } from './talk/chat-commands.js';
import { Conversation } from './talk/conversation.js';
import { LineInput } from './talk/line-input.js';
import { openTalker, requireModel, talkFlags } from './talk/open-talker.js';
import type { Talker } from './talk/talker.js';

export function chatCommand(): Command {
  const command = new Command('chat')
    .argument('[model]', 'Hugging Face checkpoint, GGUF file or packed model with a chat template')
    .addHelpText(
      'after',
      '\nExamples:\n  sida chat olmoe-mini --memory-budget 25%\n  sida chat --url http://127.0.0.1:8080',
    );
  return talkFlags(command).action(async (model: string | undefined, values: Record<string, unknown>) => {
    requireModel(model, values);
    const { talker, settings, system } = await openTalker(model, values);
    let answered = false;
    try {
      answered = await talk(talker, new Conversation(talker, system, settings));
    } finally {
      await talker.close();
    }
    endProcess(answered ? EXIT.ok : EXIT.failure);
  });
}

/** Resolves with whether all that was said was answered. */
async function talk({ model, contextTokens, advice }: Talker, conversation: Conversation): Promise<boolean> {
  const input = new LineInput();
  const context =
    contextTokens === undefined ? '' : ` · context ${contextTokens.toLocaleString('en')} tokens`;
  const drawn = advice === undefined ? '' : advice === null ? ' · greedy' : ' · sampling of the model';
  if (input.terminal) printLines(`${model}${context}${drawn} · /help lists commands, Ctrl-D ends`);
  let answered = true;
  for (let line = await input.next(); line !== undefined; line = await input.next()) {
    if (line.trim() === '') continue;
    try {
      const shown = runCommand(conversation, line);
      if (shown === 'bye') break;
      if (shown === undefined) await answer(conversation, line, input.terminal);
      else printLines(...shown);
    } catch (error) {
      if (!(error instanceof SidaError || error instanceof UsageError)) throw error;
      warnLines(`sida: ${error.message}`);
      answered = false;
    }
  }
  input.close();
  return answered;
}

/** On a terminal, Ctrl-C ends the answer and not the process. */
async function answer(conversation: Conversation, line: string, terminal: boolean): Promise<void> {
  const abort = new AbortController();
  const onSignal = () => abort.abort();
  if (terminal) process.on('SIGINT', onSignal);
  let last = '';
  const show = (print: (text: string) => void) => (text: string) => {
    last = text;
    print(text);
  };
  let reasoned = false;
  const endReasoning = () => {
    if (reasoned) printText(last.endsWith('\n') ? '\n' : '\n\n');
    reasoned = false;
  };
  try {
    await conversation.say(line, {
      signal: abort.signal,
      onText: (text) => {
        endReasoning();
        show(printText)(text);
      },
      onReasoning: (text) => {
        if (!terminal) return;
        reasoned = true;
        show(printFaint)(text);
      },
    });
    printText('\n');
  } catch (error) {
    if (last !== '') printText('\n');
    throw error;
  } finally {
    process.off('SIGINT', onSignal);
  }
}
