/** The commands within `sida chat`. */
import { UsageError } from '../../config/resolve.js';
import { nearest } from '../../text/nearest.js';
import type { Conversation } from './conversation.js';
import { changeSetting, SETTING_NAMES } from './settings.js';

interface ChatCommand {
  takes?: string;
  help: string;
  /** Returns lines to print. Throws UsageError. */
  run(conversation: Conversation, rest: string): string[];
}

const COMMANDS: Record<string, ChatCommand> = {
  help: { help: 'list the commands', run: help },
  clear: {
    help: 'forget what was said; the system message and the settings stay',
    run(conversation) {
      conversation.clear();
      return ['A new conversation begins'];
    },
  },
  system: {
    takes: '[TEXT]',
    help: 'tell the model TEXT first, from the next message on; without TEXT: show it',
    run(conversation, text) {
      if (text !== '') conversation.setSystem(text);
      return [conversation.system ?? 'There is no system message'];
    },
  },
  set: { takes: '[NAME VALUE]', help: `change ${SETTING_NAMES.join(', ')}; VALUE may be default`, run: set },
  stats: {
    help: 'tokens and rate of the last answer, context used',
    run: (conversation) => conversation.stats(),
  },
  bye: { help: 'end the conversation, as Ctrl-D does', run: () => [] },
};

/** Runs a line that is a command. Undefined for other lines; `bye` ends the conversation. Throws UsageError. */
export function runCommand(conversation: Conversation, line: string): string[] | 'bye' | undefined {
  const match = /^\/([a-z?]+)(?:\s+(.*))?$/s.exec(line.trim());
  if (match === null) return undefined;
  const name = match[1]!;
  if (!Object.hasOwn(COMMANDS, name)) {
    const meant = nearest(name, Object.keys(COMMANDS));
    throw new UsageError(
      `There is no command /${name}; ${meant === undefined ? '/help lists them' : `did you mean /${meant}?`}`,
    );
  }
  return name === 'bye' ? 'bye' : COMMANDS[name]!.run(conversation, match[2]?.trim() ?? '');
}

function help(): string[] {
  const rows = Object.entries(COMMANDS).map(([name, { takes, help }]) => [
    `/${name}${takes === undefined ? '' : ` ${takes}`}`,
    help,
  ]);
  const width = Math.max(...rows.map(([usage]) => usage!.length));
  return [
    ...rows.map(([usage, text]) => `${usage!.padEnd(width)}  ${text}`),
    'A message of several lines: a backslash at the end of each line but the last, or """ around it.',
    'Ctrl-C ends an answer.',
  ];
}

function set({ settings, advice }: Conversation, rest: string): string[] {
  const [name, value, ...more] = rest.split(/\s+/);
  if (value !== undefined && more.length === 0) changeSetting(settings, name!, value);
  else if (rest !== '')
    throw new UsageError('/set takes a NAME and a VALUE; without them it shows the settings');
  return SETTING_NAMES.map((each) => {
    const advised = advice[each] === undefined ? '' : ` (${advice[each]} by the model's advice)`;
    return `${each} ${settings[each] ?? `default${advised}`}`;
  });
}
