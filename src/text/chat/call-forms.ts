/** How models write tool calls: a row for each form. The reader of answers and the grammars follow the same rows. */

/** A key and its value. The white space at the edges of `valueBegin` and `valueEnd` does not belong to the value. */
export interface PairMarks {
  keyBegin: string;
  keyEnd: string;
  valueBegin: string;
  valueEnd: string;
}

/** The texts around the parts of a call, as the model's template writes them. */
export interface CallForm {
  /** Forms of one family have the same marks. A reader of one of them reads all. */
  family: 'hermes' | 'coder' | 'glm' | 'deepseek' | 'kimi' | 'mistral' | 'gemma';
  /** Around all calls of an answer. Models misspell its beginning: the first spelling is the right one. */
  section?: { begins: readonly [string, ...string[]]; end: string };
  begin: string;
  beforeName: string;
  /** Digits stand for any number. */
  afterName: string;
  /** Between the name and `afterName`: an id of nine letters and digits follows this mark. */
  id?: string;
  /** Arguments as pairs. Absent: they are a JSON object. */
  pairs?: PairMarks;
  /** Around texts in arguments that are an object whose keys have no quotation marks. JSON is read, too. */
  quote?: string;
  afterArguments: string;
  end: string;
  /** Whether the whole call is a JSON object, or a list of such objects. */
  json?: true;
}

/** Around `{"name": …, "arguments": …}` and other bodies. */
export const TOOL_CALL_TAGS = ['<tool_call>', '</tool_call>'] as const;

const [TAG, TAG_END] = TOOL_CALL_TAGS;
const TAGGED = { begin: TAG, end: TAG_END } as const;
const DEEPSEEK = {
  family: 'deepseek',
  section: {
    begins: [
      '<｜tool▁calls▁begin｜>',
      '<｜tool_calls_begin｜>',
      '<｜tool calls begin｜>',
      '<｜tool\\_calls\\_begin｜>',
      '<｜tool▁calls｜>',
    ],
    end: '<｜tool▁calls▁end｜>',
  },
  begin: '<｜tool▁call▁begin｜>',
  end: '<｜tool▁call▁end｜>',
} as const;
const MISTRAL = { family: 'mistral', begin: '[TOOL_CALLS]', end: '' } as const;
const JSON_HEAD = { beforeName: '{"name": "', afterName: '", "arguments": ', json: true } as const;

const FORMS = {
  /** Qwen3-Coder. */
  coder: {
    ...TAGGED,
    family: 'coder',
    beforeName: '\n<function=',
    afterName: '>\n',
    pairs: { keyBegin: '<parameter=', keyEnd: '>', valueBegin: '\n', valueEnd: '\n</parameter>\n' },
    afterArguments: '</function>\n',
  },
  /** GLM-4.5 and 4.6. */
  glm_lines: {
    ...TAGGED,
    family: 'glm',
    beforeName: '',
    afterName: '\n',
    pairs: {
      keyBegin: '<arg_key>',
      keyEnd: '</arg_key>\n',
      valueBegin: '<arg_value>',
      valueEnd: '</arg_value>\n',
    },
    afterArguments: '',
  },
  /** GLM-4.7. */
  glm: {
    ...TAGGED,
    family: 'glm',
    beforeName: '',
    afterName: '',
    pairs: {
      keyBegin: '<arg_key>',
      keyEnd: '</arg_key>',
      valueBegin: '<arg_value>',
      valueEnd: '</arg_value>',
    },
    afterArguments: '',
  },
  /** DeepSeek-V3 and R1. */
  deepseek_fenced: {
    ...DEEPSEEK,
    beforeName: 'function<｜tool▁sep｜>',
    afterName: '\n```json\n',
    afterArguments: '\n```',
  },
  /** DeepSeek-V3.1. */
  deepseek: { ...DEEPSEEK, beforeName: '', afterName: '<｜tool▁sep｜>', afterArguments: '' },
  /** Kimi K2. */
  kimi: {
    family: 'kimi',
    section: { begins: ['<|tool_calls_section_begin|>'], end: '<|tool_calls_section_end|>' },
    begin: '<|tool_call_begin|>',
    beforeName: 'functions.',
    afterName: ':0<|tool_call_argument_begin|>',
    afterArguments: '',
    end: '<|tool_call_end|>',
  },
  /** Mistral-Small-3.2. */
  mistral_ids: { ...MISTRAL, beforeName: '', id: '[CALL_ID]', afterName: '[ARGS]', afterArguments: '' },
  /** Devstral. */
  mistral: { ...MISTRAL, beforeName: '', afterName: '[ARGS]', afterArguments: '' },
  /** Mistral-Nemo, Mixtral. */
  mistral_list: {
    ...MISTRAL,
    ...JSON_HEAD,
    beforeName: `[${JSON_HEAD.beforeName}`,
    afterArguments: '}]',
  },
  /** Gemma 4. */
  gemma: {
    family: 'gemma',
    begin: '<|tool_call>',
    beforeName: 'call:',
    afterName: '',
    quote: '<|"|>',
    afterArguments: '',
    end: '<tool_call|>',
  },
  /** Hermes, Qwen2.5 and Qwen3. The last one: others have its tags, too. */
  hermes: {
    ...TAGGED,
    ...JSON_HEAD,
    family: 'hermes',
    beforeName: `\n${JSON_HEAD.beforeName}`,
    afterArguments: '}\n',
  },
} as const satisfies Record<string, CallForm>;

export type CallFormName = keyof typeof FORMS;
export const CALL_FORMS: Readonly<Record<CallFormName, CallForm>> = FORMS;
export const CALL_FORM_NAMES = Object.keys(FORMS) as [CallFormName, ...CallFormName[]];

/** The forms that a reader of this form reads, this one first. */
export function alike(name: CallFormName): [CallForm, ...CallForm[]] {
  const own = CALL_FORMS[name];
  return [own, ...Object.values(CALL_FORMS).filter((form) => form !== own && form.family === own.family)];
}

/** Texts such as `<arg_key>`, `<function=` and `[ARGS]`. A tokenizer may have a token for each. */
export function marksOf(form: CallForm, spellings = form.section?.begins): string[] {
  const { section, begin, beforeName, id = '', afterName, pairs, quote = '', afterArguments, end } = form;
  const texts = [...(spellings ?? []), section?.end ?? '', begin, beforeName, id, afterName, quote];
  const all = [...texts, ...Object.values(pairs ?? {}), afterArguments, end].join('\n');
  return marksIn([all]);
}

export function marksIn(texts: readonly string[]): string[] {
  return [...new Set(texts.join('\n').match(/<[^<>\n]+>?|\[[A-Z_]+\]|```\w+/g))];
}

/** Marks at which a call begins. Models leave the first one out. */
export function beginsOf({ section, begin, beforeName }: CallForm): string[] {
  const second = beforeName.trim();
  return [...(section?.begins ?? []), begin, ...(second.startsWith('<') ? [second] : [])];
}

/** What stands before the arguments of a call: all that encloses calls, and the name. */
export function callHead(form: CallForm, name: string, id: string): string {
  const { section, begin, beforeName, id: idMark, afterName } = form;
  const marked = idMark === undefined ? '' : idMark + id;
  return (section?.begins[0] ?? '') + begin + beforeName + name + marked + afterName;
}
