/** `sida ask` and `sida chat`: a question, or a conversation, without a server. */

import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import { ENGINE_OPTION_NAMES } from '../config/engine-config.js';
import { SidaError } from '../errors.js';
import { printText, warnLines } from '../text/print.js';
import { ChatEngine, type Said } from './chat-engine.js';
import { EXIT, endProcess } from './exit.js';
import { addFlags } from './flags.js';
import { localModel } from './hub-models.js';

export function askCommand(): Command {
  const command = new Command('ask')
    .description('Ask a model one question and print its answer')
    .argument('<model>', 'a model with a chat template: its checkpoint, GGUF file, pack or name')
    .argument('<text>', 'what to say')
    .addHelpText('after', "\nExamples:\n  sida ask olmoe-mini 'What kind of thing is a violin?'")
    .action(async (model: string, text: string, values: Record<string, unknown>) => {
      const { system, ...flags } = values as { system?: string } & Record<string, unknown>;
      const engine = await ChatEngine.open(await localModel(model), flags);
      try {
        await engine.answer([...systemMessage(system), { role: 'user', content: text }], printText);
        printText('\n');
      } finally {
        await engine.close();
      }
      endProcess(EXIT.ok);
    });
  return talkFlags(command);
}

export function chatCommand(): Command {
  const command = new Command('chat')
    .description('Talk to a model, line by line, until the end of the input')
    .argument('<model>', 'a model with a chat template: its checkpoint, GGUF file, pack or name')
    .addHelpText('after', '\nExamples:\n  sida chat olmoe-mini --memory-budget 25%')
    .action(async (model: string, values: Record<string, unknown>) => {
      const { system, ...flags } = values as { system?: string } & Record<string, unknown>;
      const engine = await ChatEngine.open(await localModel(model), flags);
      let answered = false;
      try {
        answered = await talk(engine, systemMessage(system));
      } finally {
        await engine.close();
      }
      endProcess(answered ? EXIT.ok : EXIT.failure);
    });
  return talkFlags(command);
}

/** Resolves with whether all that was said was answered. What the model refuses is left out of the conversation. */
async function talk(engine: ChatEngine, messages: Said[]): Promise<boolean> {
  let answered = true;
  const lines = createInterface({ input: process.stdin, terminal: false });
  const prompt = () => {
    if (process.stdin.isTTY) printText('> ');
  };
  prompt();
  for await (const line of lines) {
    if (line.trim() !== '') {
      messages.push({ role: 'user', content: line });
      let begun = false;
      const show = (text: string) => {
        begun = true;
        printText(text);
      };
      try {
        messages.push({ role: 'assistant', content: await engine.answer(messages, show) });
        printText('\n');
      } catch (error) {
        if (!(error instanceof SidaError) || error.status >= 500) throw error;
        messages.pop();
        answered = false;
        if (begun) printText('\n');
        warnLines(`sida: ${error.message}`);
      }
    }
    prompt();
  }
  return answered;
}

function systemMessage(content: string | undefined): Said[] {
  return content === undefined ? [] : [{ role: 'system', content }];
}

function talkFlags(command: Command): Command {
  const options = ENGINE_OPTION_NAMES.filter((name) => name !== 'model');
  return addFlags(command, options)
    .option('--system <text>', 'what the model is told first')
    .option('--max-tokens <n>', 'most tokens of an answer (default: 1024, or what the context has left)')
    .option('--temperature <x>', '0: the likeliest tokens (default: 0)')
    .option('--seed <n>', 'the same seed gives the same answer');
}
