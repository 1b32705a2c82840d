/** What a request demands of the structure of an answer, from its fields. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { AnswerStructure } from '../../structured-output/answer-grammar.js';
import { pairsGrammar } from '../../structured-output/pairs-grammar.js';
import { checkedSchema } from '../../structured-output/schema.js';
import type { PairMarks } from '../../text/chat/call-forms.js';
import type { ChatTool, ToolChoice } from './conversation-schema.js';
import { MOST_STORED } from './stored.js';

const storedSchema = { schema: z.string(), closed: z.boolean() };

export const storedStructure = z.object({
  content: z.object(storedSchema).exactOptional(),
  calls: z
    // `param` is the field of the request that has the schema, which errors name.
    .array(z.object({ name: z.string(), param: z.string(), ...storedSchema }))
    .max(MOST_STORED)
    .exactOptional(),
}) satisfies z.ZodType<AnswerStructure>;

export type StoredStructure = z.infer<typeof storedStructure>;

/** Schemas that a job holds. Those of calls stand among the tools of its conversation, too. */
export function heldSchemas({ content, calls = [] }: StoredStructure = {}): string[] {
  return [...(content ? [content.schema] : []), ...calls.map(({ schema }) => schema)];
}

/** Schemas that the engine compiles and that stand in no text of the job. */
export function ownSchemas({ content }: StoredStructure = {}): string[] {
  return content ? [content.schema] : [];
}

const ANY_OBJECT = { schema: '{"type":"object"}', closed: false };
/** Keywords that say of what type the arguments are. Without them, they are an object. */
const DECIDES = ['type', '$ref', 'anyOf', 'oneOf', 'allOf', 'const', 'enum'];

/** `response_format` of chats and completions, and `text.format` of responses, whose fields stand side by side. */
export interface StructureFormat {
  type: 'text' | 'json_object' | 'json_schema';
  schema?: unknown;
  strict?: unknown;
}

/** Undefined for plain text. `param` names the format in errors. Throws invalid_request. */
export function contentStructure(
  format: StructureFormat | null | undefined,
  param: string,
): AnswerStructure['content'] {
  if (format == null || format.type === 'text') return undefined;
  if (format.type === 'json_object') return ANY_OBJECT;
  const closed = format.strict !== false;
  return { schema: checkedSchema(format.schema, param, { closed }), closed };
}

/** A function, and the field of the request that describes it. */
export interface OfferedTool {
  tool: ChatTool;
  field: string;
}

interface Demands {
  content: AnswerStructure['content'];
  choice: ToolChoice;
  /** Those that the model may call. */
  tools: readonly OfferedTool[];
  /** Whether the model calls tools on its own. */
  calls: boolean;
  /** How it writes the arguments of calls; undefined for JSON. */
  pairs: PairMarks | undefined;
}

/** Undefined if the answer may be any text. Throws invalid_request. */
export function structureOf(demands: Demands): StoredStructure | undefined {
  const { content, choice, tools, calls, pairs } = demands;
  const structures = (all: readonly OfferedTool[]) => all.map((tool) => callStructure(tool, pairs));
  const forced = forcedTools(choice, tools);
  if (forced !== undefined) return { calls: structures(forced) };
  if (content === undefined) return undefined;
  return calls && tools.length > 0 ? { content, calls: structures(tools) } : { content };
}

/** The tools of which one must be called; undefined if the model may do without. */
function forcedTools(choice: ToolChoice, tools: readonly OfferedTool[]): readonly OfferedTool[] | undefined {
  if (choice == null || choice === 'auto' || choice === 'none') return undefined;
  if (tools.length === 0) throw invalid('"tool_choice" demands a call, but the request has no tools');
  if (choice === 'required') return tools;
  const name = choice.function?.name ?? choice.name;
  const found = tools.filter(({ tool }) => tool.function.name === name);
  if (choice.type !== 'function' || name === undefined) {
    throw invalid('Expected "none", "auto", "required" or {"type":"function","function":{"name":…}}');
  }
  if (found.length > 0) return found;
  throw invalid(`"tool_choice" names ${JSON.stringify(name)}, which is not among the tools`);
}

function callStructure({ tool, field }: OfferedTool, marks: PairMarks | undefined) {
  const { name, parameters, strict } = tool.function;
  const param = `${field}.parameters`;
  const schema = parameters ?? { type: 'object', properties: {} };
  const typed = DECIDES.some((keyword) => schema[keyword] != null) ? schema : { ...schema, type: 'object' };
  const closed = strict !== false;
  const checked = checkedSchema(typed, param, { closed, objects: true });
  if (marks !== undefined) checkPairs({ schema: checked, closed, marks, marked: (text) => text }, param);
  return { name, param, schema: checked, closed };
}

function checkPairs(pairs: Parameters<typeof pairsGrammar>[0], param: string): void {
  try {
    pairsGrammar(pairs);
  } catch (error) {
    const message = `The model writes arguments of calls as pairs, and these cannot be: ${(error as Error).message}`;
    throw new SidaError({ code: 'invalid_request', message, param });
  }
}

function invalid(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'tool_choice' });
}
