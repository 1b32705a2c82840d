/** Finds out how a model writes tool calls: its chat template renders a conversation with one call. */
import { withinTime } from '../time-bound.js';
import { CALL_FORM_NAMES, CALL_FORMS, type CallFormName, callHead, marksOf } from './call-forms.js';
import { ChatTemplate } from './chat-template.js';
import { type ChatTemplates, templateName } from './template-files.js';

export interface CallTrial {
  /** Undefined if the template writes calls in no form of these. */
  form?: CallFormName;
  /** Whether the template takes only ids of nine letters and digits. */
  shortIds: boolean;
}

const NAME = 'get_tea';
const GIVEN = { topic: 'tea' };
const TOOL = {
  type: 'function',
  function: {
    name: NAME,
    description: 'Tea',
    parameters: { type: 'object', properties: { topic: { type: 'string' } }, required: ['topic'] },
  },
};
const [LONG_ID, SHORT_ID] = ['call_0123456789abcdef01234567', 'call00001'];
const TRIAL_MS = 1_000;

export function triedCall(templates: ChatTemplates): CallTrial {
  const text = templates.texts[templateName(templates, true) ?? ''] ?? '';
  try {
    const found = withinTime(TRIAL_MS, 'rendering a call', () => rendered(text, templates.variables));
    if (found !== undefined) return found;
  } catch {
    // A template that cannot be used says so at the first conversation.
  }
  const form = CALL_FORM_NAMES.find((name) => {
    const { section } = CALL_FORMS[name];
    return marksOf(CALL_FORMS[name], section && [section.begins[0]]).every((mark) => text.includes(mark));
  });
  return { ...(form && { form }), shortIds: false };
}

/** Some templates write calls only beside no content, or join arguments as a text. */
function rendered(text: string, variables: Record<string, unknown>): CallTrial | undefined {
  const template = new ChatTemplate(text, variables);
  for (const id of [LONG_ID, SHORT_ID]) {
    for (const given of [GIVEN, JSON.stringify(GIVEN)]) {
      for (const content of ['', null]) {
        const form = formIn(renderedOr(template, id, given, content), id);
        if (form !== undefined) return { form, shortIds: id === SHORT_ID };
      }
    }
  }
  return undefined;
}

function renderedOr(template: ChatTemplate, id: string, given: unknown, content: string | null): string {
  const call = { id, type: 'function', function: { name: NAME, arguments: given } };
  const messages = [
    { role: 'user', content: 'Tea?' },
    { role: 'assistant', content, tool_calls: [call] },
  ];
  try {
    return template.render({ messages, tools: [TOOL], add_generation_prompt: false });
  } catch {
    return '';
  }
}

/** The form in which a text has the call: with the same white space if any, since forms differ in it. */
function formIn(text: string, id: string): CallFormName | undefined {
  const writes = (name: CallFormName, shown: (own: string) => string) => {
    const form = CALL_FORMS[name];
    const begins = form.pairs === undefined ? '{' : `${form.pairs.keyBegin}topic`;
    return shown(text).includes(shown(callHead(form, NAME, id) + begins));
  };
  return (
    CALL_FORM_NAMES.find((name) => writes(name, (own) => own)) ??
    CALL_FORM_NAMES.find((name) => writes(name, (own) => own.replace(/\s/g, '')))
  );
}
