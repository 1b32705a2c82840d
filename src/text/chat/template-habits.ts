/** What a chat template makes of conversations, which trial renders tell. */
import { parseJson } from '../jinja/json.js';
import { Dict, type Value } from '../jinja/values.js';
import type { ChatTemplate } from './chat-template.js';

/** How a template takes the calls of earlier answers. */
export interface CallHabits {
  /** The contents beside calls with which it writes the calls. */
  contents: readonly (null | '')[];
  /** Whether it takes the arguments of a call as an object, or as JSON. */
  arguments: 'object' | 'text';
}

/** Where a template takes system messages. */
export type SystemMessages = 'anywhere' | 'first' | 'nowhere';

const NAME = 'sida_call';
const KEY = 'sida_key';
const VALUE = 'sida_value';
const ARGUMENTS = { object: { [KEY]: VALUE }, text: JSON.stringify({ [KEY]: VALUE }).replace(':', ': ') };
const PARAMETERS = { type: 'object', properties: { [KEY]: { type: 'string', description: 'A key' } } };
const TOOL = { type: 'function', function: { name: NAME, description: 'A call', parameters: PARAMETERS } };

const user = (content: string) => ({ role: 'user', content });
const answer = (content: string) => ({ role: 'assistant', content });
const system = (content: string) => ({ role: 'system', content });

export function callHabits(template: ChatTemplate): CallHabits {
  for (const form of ['object', 'text'] as const) {
    for (const tools of [[TOOL], undefined]) {
      const contents = (['', null] as const).filter((content) => writesCalls(template, content, form, tools));
      if (contents.length > 0) return { contents, arguments: form };
    }
  }
  // It writes no calls.
  return { contents: [''], arguments: 'object' };
}

function writesCalls(
  template: ChatTemplate,
  content: null | '',
  form: CallHabits['arguments'],
  tools: unknown,
): boolean {
  // Some templates accept only ids of nine letters.
  const id = 'sidacall1';
  const call = { id, type: 'function', function: { name: NAME, arguments: ARGUMENTS[form] } };
  const begin = user('a');
  const called = { role: 'assistant', content, tool_calls: [call] };
  const result = { role: 'tool', tool_call_id: id, name: NAME, content: 'b' };
  const without = rendered(template, { messages: [begin, answer('c')], tools });
  const text = rendered(template, { messages: [begin, called, result], tools });
  if (text === undefined) return false;
  const more = (part: string) => countOf(text, part) > countOf(without ?? '', part);
  // A template that takes a null for a text writes its name.
  if (content === null && more('None')) return false;
  // One that takes an object for a text writes it as Python does.
  const written = form === 'object' ? more(KEY) && more(VALUE) && !more(`{'${KEY}'`) : more(ARGUMENTS.text);
  return more(NAME) && written;
}

export function systemMessages(template: ChatTemplate): SystemMessages {
  const takes = (...messages: object[]) => rendered(template, { messages }) !== undefined;
  const [begin, end] = [user('a'), [answer('b'), user('c')]];
  if (!takes(begin) || takes(system('d'), begin))
    return takes(begin, ...end) && !takes(begin, answer('b'), system('d'), user('c')) ? 'first' : 'anywhere';
  return 'nowhere';
}

/** Whether a template fails at a tool without a description, which requests may leave out. */
export function needsDescriptions(template: ChatTemplate): boolean {
  const { description, ...bare } = TOOL.function;
  const takes = (own: object) =>
    rendered(template, { messages: [user('a')], tools: [{ ...TOOL, function: own }] }) !== undefined;
  return !takes(bare) && takes({ ...bare, description: '' });
}

/** The tools with a description each. */
export function described(tools: readonly Value[]): Value[] {
  return tools.map((tool) => {
    const given = tool instanceof Dict ? tool.get('function') : undefined;
    if (!(tool instanceof Dict) || !(given instanceof Dict) || !lacksDescription(given)) return tool;
    const own = new Dict([...given.entries(), ['description', '']]);
    return new Dict([...tool.entries(), ['function', own]]);
  });
}

export function lacksDescription(tool: Value): boolean {
  const own = tool instanceof Dict ? (tool.get('function') ?? tool) : undefined;
  return own instanceof Dict && (own.get('description') ?? null) === null;
}

function rendered(template: ChatTemplate, conversation: Record<string, unknown>): string | undefined {
  const { tools, ...rest } = conversation;
  try {
    return template.render({ ...rest, ...(tools !== undefined && { tools }), add_generation_prompt: true });
  } catch {
    return undefined;
  }
}

function countOf(text: string, part: string): number {
  return text.split(part).length - 1;
}

/** The messages as a template takes them: calls with a content and with arguments of its form. */
export function fitted(messages: readonly Value[], habitsOf: () => CallHabits): Value[] {
  return messages.map((message) => {
    const calls = message instanceof Dict ? message.get('tool_calls') : undefined;
    if (!(message instanceof Dict) || !Array.isArray(calls)) return message;
    const habits = habitsOf();
    const fit = new Dict(message.entries());
    const content = message.get('content');
    if ((content === null || content === '') && !habits.contents.includes(content))
      fit.set('content', habits.contents[0]!);
    if (habits.arguments === 'object') fit.set('tool_calls', calls.map(withObject));
    return fit;
  });
}

/** The call with its arguments as an object, if they are one. */
function withObject(call: Value): Value {
  const called = call instanceof Dict ? call.get('function') : undefined;
  const given = called instanceof Dict ? called.get('arguments') : undefined;
  if (!(call instanceof Dict) || !(called instanceof Dict) || typeof given !== 'string') return call;
  const parsed = objectOf(given);
  if (parsed === undefined) return call;
  return new Dict([...call.entries(), ['function', new Dict([...called.entries(), ['arguments', parsed]])]]);
}

function objectOf(json: string): Dict | undefined {
  try {
    const value = parseJson(json);
    return value instanceof Dict ? value : undefined;
  } catch {
    return undefined;
  }
}
