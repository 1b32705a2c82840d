/** Conversations, which stay in this browser. */
import type { z } from 'zod';
import type { Experts } from '../tasks/shared/schema.js';

export interface Message {
  role: 'user' | 'assistant';
  content: string;
  reasoning?: string;
  /** Of an answer. */
  about?: AnswerAbout;
  /** Why the answer broke off. */
  error?: string;
}

export type ExpertCost = z.infer<typeof Experts>;

export interface AnswerAbout {
  model: string;
  promptTokens: number;
  cachedTokens: number;
  tokens: number;
  firstSeconds: number;
  /** From the first token on. */
  restSeconds: number;
  cut: boolean;
  stopped: boolean;
  experts?: ExpertCost;
  /** The device budget that it was made within. */
  budget?: number;
  /** What it was asked with: the same again gives the same answer. */
  request?: { seed: number; settings: Settings };
}

/** What a conversation asks with. Fields without a value are the model's own. */
export interface Settings {
  system: string;
  temperature?: number;
  top_p?: number;
  max_tokens?: number;
}

export interface Conversation {
  id: string;
  title: string;
  changedMs: number;
  messages: Message[];
  settings: Settings;
}

const STORED = 'sida-conversations';
/** Older ones are forgotten, because browsers keep about 5 MB. */
const MOST = 50;

const UNTITLED = 'New conversation';

export function newConversation(settings: Settings = { system: '' }): Conversation {
  const id = `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36)}`;
  return { id, title: UNTITLED, changedMs: Date.now(), messages: [], settings };
}

/** Undefined where the browser stores nothing. */
export function loadConversations(storage?: Pick<Storage, 'getItem'>): Conversation[] | undefined {
  let text: string | null;
  try {
    text = (storage ?? localStorage).getItem(STORED);
  } catch {
    return undefined;
  }
  try {
    const found: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(found) ? found.filter(isConversation) : [];
  } catch {
    return [];
  }
}

function isConversation(value: unknown): value is Conversation {
  const { id, title, settings, messages } = (value ?? {}) as Partial<Conversation>;
  return (
    typeof id === 'string' &&
    typeof title === 'string' &&
    typeof settings?.system === 'string' &&
    Array.isArray(messages) &&
    messages.every((message) => typeof message?.content === 'string')
  );
}

/** The last ones with messages are kept. A full storage keeps fewer. */
export function storeConversations(all: readonly Conversation[], storage?: Pick<Storage, 'setItem'>): void {
  let kept = all
    .filter(({ messages }) => messages.length > 0)
    .sort((a, b) => b.changedMs - a.changedMs)
    .slice(0, MOST);
  for (;;) {
    try {
      (storage ?? localStorage).setItem(STORED, JSON.stringify(kept));
      return;
    } catch {
      if (kept.length === 0) return;
      kept = kept.slice(0, -1);
    }
  }
}

/** The first words of the first message. */
export function titleOf(text: string): string {
  const line = text.trim().split('\n')[0]!;
  return line.length <= 40 ? line : `${line.slice(0, 39)}…`;
}

/**
 * The title once `text` is asked after `base`. The page's own titles follow the first question; a title that a person
 * gave stays.
 */
export function retitled({ title, messages }: Conversation, base: readonly Message[], text: string): string {
  const first = messages[0];
  const own = title === UNTITLED || (first !== undefined && title === titleOf(first.content));
  return own && base.length === 0 ? titleOf(text) : title;
}

/** The messages as the server takes them, the system prompt first. */
export function wireMessages({ settings, messages }: Pick<Conversation, 'settings' | 'messages'>) {
  const system = settings.system.trim();
  return [
    ...(system === '' ? [] : [{ role: 'system', content: system }]),
    ...messages.filter(({ content }) => content !== '').map(({ role, content }) => ({ role, content })),
  ];
}

/** The request in other words. `origin` is the server's address. */
export function asCode(kind: 'curl' | 'JavaScript' | 'Python', origin: string, body: object): string {
  const json = JSON.stringify(body, null, 2);
  if (kind === 'curl')
    return `curl ${origin}/v1/chat/completions -H 'content-type: application/json' -d '${json.replaceAll("'", "'\\''")}'`;
  if (kind === 'JavaScript')
    return [
      "import OpenAI from 'openai';",
      '',
      `const client = new OpenAI({ baseURL: '${origin}/v1', apiKey: 'none' });`,
      `const answer = await client.chat.completions.create(${json});`,
      'console.log(answer.choices[0].message.content);',
    ].join('\n');
  return [
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url="${origin}/v1", api_key="none")`,
    `answer = client.chat.completions.create(**${pythonOf(body)})`,
    'print(answer.choices[0].message.content)',
  ].join('\n');
}

function pythonOf(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${pythonOf(own)}`);
  return `{${entries.join(', ')}}`;
}
