/** Grammars of whole answers: reasoning, if the model writes any, then the content or the call that was asked for. */
import { SidaError } from '../errors.js';
import {
  type AnswerFormat,
  CHANNEL_TOKENS,
  CONTROL,
  REASONING_TAGS,
  TOOL_CALL_TAGS,
} from '../text/chat/answer-format.js';
import { CONTROL_MARK, type Grammar, NOTHING } from './grammar.js';

interface SchemaText {
  schema: string;
  closed: boolean;
}

/** What a request demands of an answer: content that is JSON, one call of one of the tools, or one of both. */
export interface AnswerStructure {
  content?: SchemaText;
  calls?: (SchemaText & { name: string })[];
}

interface AnswerStart {
  format: AnswerFormat;
  /** The control tokens that an answer shows. */
  controls: Iterable<string>;
  /** What the prompt holds of the answer, as `answerPrefix` gives it. */
  prefix: string;
}

const { start, channel, constrain, message, end } = CHANNEL_TOKENS;
const [THINK, THINK_END] = REASONING_TAGS;
const [CALL, CALL_END] = TOOL_CALL_TAGS;

export function answerGrammar(
  structure: AnswerStructure,
  { format, controls, prefix }: AnswerStart,
): Grammar {
  return format.kind === 'channels'
    ? channelsGrammar(structure, prefix)
    : tagsGrammar(structure, new Set(controls), prefix, format.reasoning);
}

function tagsGrammar(
  { content, calls = [] }: AnswerStructure,
  controls: ReadonlySet<string>,
  prefix: string,
  reasons: boolean,
): Grammar {
  const tag = (text: string) => (controls.has(text) ? CONTROL_MARK + text : text);
  const reasoning: Grammar = { kind: 'until', end: tag(THINK_END) };
  const answers = calls.map(({ name, ...args }) => {
    const head = `${tag(CALL)}\n{"name": ${JSON.stringify(name)}, "arguments": `;
    return sequence(text(head), json(args), text(`}\n${tag(CALL_END)}`));
  });
  if (content !== undefined) answers.push(json(content));
  const answer = choice(answers);
  if (prefix === THINK) return sequence(reasoning, spaces(), answer);
  // Without a token for the tag, any "<" might begin one.
  if (!reasons || !controls.has(THINK)) return answer;
  return sequence(choice([sequence(text(tag(THINK)), reasoning, spaces()), NOTHING]), answer);
}

function channelsGrammar({ content, calls = [] }: AnswerStructure, prefix: string): Grammar {
  const begun = prefix.replaceAll(CONTROL, '').trim();
  if (begun !== '' && begun !== `${start}assistant`) {
    const what = JSON.stringify(begun.slice(0, 80));
    const why = `The chat template begins the answer with ${what}, after which no structure can be demanded`;
    throw new SidaError({ code: 'cannot_run', message: why });
  }
  const token = (name: string) => CONTROL_MARK + name;
  const header = (text: string) => `${token(channel)}${text}${token(message)}`;
  const reasoning = sequence(
    text(header('analysis')),
    { kind: 'until', end: token(end) },
    text(`${token(start)}assistant`),
  );
  const answers = calls.map(({ name, ...args }) =>
    sequence(text(header(`commentary to=functions.${name} ${token(constrain)}json`)), json(args)),
  );
  if (content !== undefined) answers.push(sequence(text(header('final')), json(content)));
  return sequence(choice([reasoning, NOTHING]), choice(answers));
}

function json({ schema, closed }: SchemaText): Grammar {
  return { kind: 'json', schema, closed };
}

function text(own: string): Grammar {
  return { kind: 'text', text: own };
}

/** Between reasoning and an answer. */
function spaces(): Grammar {
  return choice([text('\n\n'), text('\n'), NOTHING]);
}

function sequence(...parts: Grammar[]): Grammar {
  return { kind: 'sequence', parts };
}

function choice(parts: Grammar[]): Grammar {
  return parts.length === 1 ? parts[0]! : { kind: 'choice', parts };
}
