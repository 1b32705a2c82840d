/** The chat templates of a model: chat_template.jinja, else those of tokenizer_config.json. */
import { z } from 'zod';
import { CONSTANT_NAMES } from '../jinja/expression-parser.js';
import { FUNCTION_NAMES } from '../jinja/globals.js';
import { MOST_SETTINGS, parseJson } from '../one-line.js';

export interface ChatTemplates {
  /** By name; `default` for the usual one. Empty when there is a fault. */
  texts: Record<string, string>;
  /** Special tokens that templates write, such as `bos_token`. */
  variables: Record<string, string>;
  /** Why the templates cannot be used. */
  fault?: string;
}

/** Several times the longest published template. */
const MOST_CHARACTERS = 256 * 1024;
/** Many more than the added tokens of a large tokenizer, each with some values. */
const MOST_VALUES = 50 * MOST_SETTINGS;

const token = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish();
const named = z.object({ name: z.string(), template: z.string() });
const configSchema = z.looseObject({
  chat_template: z.union([z.string(), z.array(named)]).nullish(),
  bos_token: token,
  eos_token: token,
  pad_token: token,
  unk_token: token,
});

const TOKENS = ['bos_token', 'eos_token', 'pad_token', 'unk_token'] as const;

/** Says that the answer goes on with the last message. The server reads it, and templates do not get it. */
export const CONTINUED = 'continue_final_message';

/** Names that have a value already, so that a request may not set them as variables. */
export const TAKEN_NAMES: ReadonlySet<string> = new Set([
  'messages',
  'tools',
  CONTINUED,
  ...TOKENS,
  ...FUNCTION_NAMES,
  ...CONSTANT_NAMES,
]);

/** Undefined for a model without a chat template. Files that cannot be read are no reason not to serve the model. */
export function readChatTemplates(
  jinja: Buffer | undefined,
  config: Buffer | undefined,
): ChatTemplates | undefined {
  try {
    const settings = config === undefined ? {} : parseJson(config, configSchema, MOST_VALUES);
    const texts = jinja === undefined ? listed(settings.chat_template) : { default: jinja.toString('utf8') };
    if (Object.keys(texts).length === 0) return undefined;
    const characters = Object.values(texts).reduce((sum, text) => sum + text.length, 0);
    if (characters > MOST_CHARACTERS)
      throw new Error(`it has ${characters} characters, the limit is ${MOST_CHARACTERS}`);
    const variables = TOKENS.flatMap((name) => {
      const value = settings[name];
      return value == null ? [] : [[name, typeof value === 'string' ? value : value.content]];
    });
    return { texts, variables: Object.fromEntries(variables) };
  } catch (error) {
    return { texts: {}, variables: {}, fault: (error as Error).message };
  }
}

function listed(templates: string | { name: string; template: string }[] | null | undefined) {
  if (templates == null) return {};
  if (typeof templates === 'string') return { default: templates };
  return Object.fromEntries(templates.map(({ name, template }) => [name, template]));
}

/** The template that a conversation uses. Undefined if the model names its templates, and none is the default. */
export function templateName({ texts }: ChatTemplates, tools: boolean): string | undefined {
  return ['tool_use', 'default'].find((name) => texts[name] !== undefined && (tools || name === 'default'));
}
