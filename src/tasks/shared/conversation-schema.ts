/** Request fields of a conversation, in the shapes of OpenAI's chat completions. */
import { z } from 'zod';
import { REQUEST_BOUNDS, shapeFault } from '../../text/json-shape.js';
import { listOf } from '../../text/list-schema.js';
import { issuesOf } from '../../text/schema-faults.js';

/** More than fit into a request. */
export const MOST_MESSAGES = 4096;
export const MOST_TOOLS = 128;
/** Of one message. */
export const MOST_CALLS = 1024;
export const MOST_PARTS = 1024;
const NAME_LETTERS = 128;

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

/** Checked by `partsText`, which says what is not supported. */
const Part = z.looseObject({ type: z.string() });

export const Content = z.union([z.string(), listOf(Part, MOST_PARTS)], {
  error: `Expected a text or a list of at most ${MOST_PARTS} parts`,
});

/** JSON that the model wrote. Templates get the object that it is, so it may be no larger than that of a body. */
export const Arguments = z.string().check(({ value, issues }) => {
  if (!isObject(value)) return;
  // A model may write a key twice. Templates then get the last one, as in transformers.
  const fault = shapeFault(Buffer.from(value), { ...REQUEST_BOUNDS, duplicates: true });
  if (fault === undefined) return;
  const { depth, fields, commas } = REQUEST_BOUNDS;
  const most = { depth: `${depth} levels`, fields: `${fields} fields`, commas: `${commas} list entries` };
  const message = `Expected JSON of at most ${most[fault.kind as keyof typeof most]}`;
  issues.push({ code: 'custom', message, input: value });
});

/** Whether the text, if it is JSON, is an object. */
function isObject(json: string): boolean {
  return /^\s*\{/.test(json);
}

const ToolCall = z.looseObject({
  id: z.string().nullish(),
  type: z.literal('function').nullish(),
  function: z.looseObject({ name: z.string().min(1), arguments: Arguments }),
});

export const Message = z
  .looseObject({
    role: z.enum(ROLES),
    content: Content.nullish(),
    name: z.string().nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: listOf(ToolCall, MOST_CALLS).nullish(),
    tool_call_id: z.string().nullish(),
  })
  .meta({ id: 'ChatMessage' });

/** Of chat completions, which also know the calls that came before `tool_calls`. */
const OlderMessage = Message.extend({
  role: z.enum([...ROLES, 'function']),
  function_call: ToolCall.shape.function.nullish().meta({ description: 'As an entry of `tool_calls`' }),
});

export const Messages = listOf(OlderMessage, MOST_MESSAGES)
  .min(1, { error: 'Expected at least one message' })
  .meta({ example: [{ role: 'user', content: 'What kind of thing is a violin?' }] });

/** A name with letters, digits, "_" and "-", as the interfaces of OpenAI and Anthropic permit it. */
export function functionName(most: number) {
  const error = `Expected 1 to ${most} letters, digits, "_" or "-"`;
  return z
    .string()
    .min(1)
    .regex(new RegExp(`^[\\w-]{1,${most}}$`), { error });
}

const FunctionName = functionName(64);

/** What a request says of a function. */
export const FUNCTION_FIELDS = {
  name: FunctionName,
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
};

const Tool = z.looseObject({
  type: z.literal('function', { error: 'Only tools of the type "function" are supported' }),
  function: z.looseObject(FUNCTION_FIELDS),
});

/** A list that is checked and left as it is: templates write tools with their keys in the order of the request. */
export function asGiven<S extends z.ZodType>(schema: S, description: string) {
  return z
    .custom<z.infer<S>>()
    .check(({ value, issues }) => void issues.push(...issuesOf(schema, value)))
    .meta({ type: 'array', items: { type: 'object' }, description });
}

/** An object that is left as it is, with the digits of its numbers. */
export const GivenObject = z
  .custom<Record<string, unknown>>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    {
      error: 'Expected an object',
    },
  )
  .meta({ type: 'object' });

/** What `Tools` checks. */
export const ToolList = listOf(Tool, MOST_TOOLS);

export const Tools = asGiven(
  ToolList,
  'Functions that the model may call, with JSON schemas of their arguments',
);

const STRICT = z.boolean().nullish().meta({
  description:
    'Whether objects have only the properties that the schema names, where it does not say `additionalProperties`. Default true',
});
const FORMAT_FIELDS = {
  name: z.string().min(1).max(NAME_LETTERS),
  description: z.string().nullish(),
  schema: z.record(z.string(), z.unknown()).meta({ description: 'A JSON schema' }),
  strict: STRICT,
};
const Plain = z.looseObject({ type: z.literal('text') });
const AnyJson = z.looseObject({ type: z.literal('json_object') });
const WRONG_FORMAT = { error: 'Expected the type "text", "json_object" or "json_schema"' };

/** Not validated as a schema here: `checkedSchema` says where it is wrong. */
export const ResponseFormat = z
  .discriminatedUnion(
    'type',
    [
      Plain,
      AnyJson,
      z.looseObject({
        type: z.literal('json_schema'),
        json_schema: z.looseObject(FORMAT_FIELDS),
      }),
    ],
    WRONG_FORMAT,
  )
  .meta({ description: 'What the answer must be: any text, a JSON object, or JSON that a schema describes' });

/** The same in /v1/responses, whose fields stand side by side. */
export const TextFormat = z
  .discriminatedUnion(
    'type',
    [Plain, AnyJson, z.looseObject({ type: z.literal('json_schema'), ...FORMAT_FIELDS })],
    WRONG_FORMAT,
  )
  .meta({ description: 'What the answer must be: any text, a JSON object, or JSON that a schema describes' });

export function formatOf(
  given: z.infer<typeof ResponseFormat> | null | undefined,
): z.infer<typeof TextFormat> | null | undefined {
  if (given?.type !== 'json_schema') return given;
  return { type: 'json_schema', ...given.json_schema };
}

const NamedTool = z.looseObject({
  type: z.string(),
  function: z.looseObject({ name: FunctionName }).optional(),
  name: FunctionName.optional(),
});

export const ToolChoice = z
  .union([z.enum(['none', 'auto', 'required']), NamedTool], {
    error: 'Expected "none", "auto", "required" or an object that names a tool',
  })
  .nullish()
  .meta({ description: '`required`, or a named function: the answer is one call. Default `auto`' });
export type ToolChoice = z.infer<typeof ToolChoice>;

/** Those of OpenAI's API. `chat_template_kwargs` may set any other that a template knows. */
export const ReasoningEffort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh']).nullish();

export const CONVERSATION_FIELDS = {
  chat_template_kwargs: GivenObject.nullish().meta({
    description: 'Variables for the chat template, such as `enable_thinking`',
  }),
};

export type ChatMessage = z.infer<typeof Message>;
export type ChatTool = z.infer<typeof Tool>;
