/** Grammars of whole answers: reasoning, if the model writes any, then the content or the call that was asked for. */
import { SidaError } from '../errors.js';
import { type AnswerFormat, CHANNEL_TOKENS, CONTROL, reasoningTags } from '../text/chat/answer-format.js';
import { CALL_FORMS, type CallForm } from '../text/chat/call-forms.js';
import { escapePattern } from '../text/escape-pattern.js';
import { CONTROL_MARK, choice, type Grammar, NOTHING, sequence, text } from './grammar.js';
import { pairsGrammar } from './pairs-grammar.js';

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

export function answerGrammar(
  structure: AnswerStructure,
  { format, controls, prefix }: AnswerStart,
): Grammar {
  return format.kind === 'channels'
    ? channelsGrammar(structure, prefix)
    : tagsGrammar(structure, format, new Set(controls), prefix);
}

function tagsGrammar(
  { content, calls = [] }: AnswerStructure,
  { reasoning: reasons, reasoningForm, callForm = 'hermes' }: Extract<AnswerFormat, { kind: 'tags' }>,
  controls: ReadonlySet<string>,
  prefix: string,
): Grammar {
  const control = new RegExp(controls.size === 0 ? '(?!)' : [...controls].map(escapePattern).join('|'), 'g');
  const tag = (text: string) => text.replace(control, (each) => CONTROL_MARK + each);
  const [begin, end] = reasoningTags(reasoningForm);
  const reasoning: Grammar = { kind: 'until', end: tag(end) };
  const answers = calls.map((call) => callGrammar(call, CALL_FORMS[callForm], tag));
  if (content !== undefined) answers.push(json(content));
  const answer = choice(answers);
  if (prefix === begin) return sequence(reasoning, spaces(), answer);
  // Without a token for the tag, any "<" might begin one.
  if (!reasons || tag(begin) === begin) return answer;
  return sequence(choice([sequence(text(tag(begin)), reasoning, spaces()), NOTHING]), answer);
}

/** A call as the template of the model writes it. */
function callGrammar(
  { name, ...schema }: SchemaText & { name: string },
  form: CallForm,
  marked: (text: string) => string,
): Grammar {
  const { section, begin, beforeName, id, afterName, pairs, afterArguments, end } = form;
  const head = text(marked((section?.begins[0] ?? '') + begin + beforeName + name + (id ?? '')));
  const behind = text(marked(afterArguments + end + (section?.end ?? '')));
  const after = marked(afterName);
  const then: Grammar = id === undefined ? text(after) : { kind: 'bare', schema: CALL_ID, end: after };
  return sequence(
    head,
    then,
    pairs ? pairsGrammar({ ...schema, marks: pairs, marked }) : json(schema),
    behind,
  );
}

const CALL_ID = JSON.stringify({ type: 'string', pattern: '^[a-zA-Z0-9]{9}$' });

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

/** Between reasoning and an answer. */
function spaces(): Grammar {
  return choice([text('\n\n'), text('\n'), NOTHING]);
}
