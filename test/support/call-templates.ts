/** Chat templates that write tool calls as those of the families do. They leave out what has no part in calls. */
import type { CallFormName } from '../../src/text/chat/call-forms.js';

const each = (assistant: string, tool: string) => `{%- for message in messages %}
{%- if message.role == 'assistant' %}${assistant}
{%- elif message.role == 'tool' %}${tool}
{%- else %}<|{{ message.role }}|>{{ message.content }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;

const pairs = (line: string) =>
  each(
    `<|assistant|><think></think>{{ message.content }}
{%- for call in message.tool_calls %}{{ '<tool_call>' + call.function.name }}
{%- for key, value in call.function.arguments.items() -%}
{{ '${line}<arg_key>' + key + '</arg_key>${line}<arg_value>' }}
{{- value if value is string else value | tojson }}</arg_value>
{%- endfor %}{{ '${line}</tool_call>' }}{% endfor %}`,
    '<|observation|>{{ message.content }}',
  );

const deepseek = (open: string, between: string, close: string) =>
  each(
    `{%- if message.content is none %}{{ '<｜Assistant｜><｜tool▁calls▁begin｜>' }}
{%- for call in message.tool_calls %}
{{- '<｜tool▁call▁begin｜>${open}' + call.function.name + '${between}' + call.function.arguments }}
{{- '${close}<｜tool▁call▁end｜>' }}{% endfor %}{{ '<｜tool▁calls▁end｜>' }}
{%- else %}{{ '<｜Assistant｜>' + message.content.split('</think>')[-1] }}{% endif %}`,
    '<｜tool▁output▁begin｜>{{ message.content }}<｜tool▁output▁end｜>',
  );

const SHORT = `{%- if call.id is not defined or call.id | length != 9 %}
{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}`;

export const CALL_TEMPLATES: Readonly<Record<CallFormName, string>> = {
  glm_lines: pairs('\\n'),
  glm: pairs(''),
  coder: each(
    `<|im_start|>assistant{{ '\\n' + message.content }}
{%- for call in message.tool_calls %}{{ '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for key, value in call.function.arguments.items() %}
{{- '<parameter=' + key + '>\\n' }}{{ value if value is string else value | tojson }}{{ '\\n</parameter>\\n' }}
{%- endfor %}{{ '</function>\\n</tool_call>' }}{% endfor %}`,
    '<tool_response>{{ message.content }}</tool_response>',
  ),
  deepseek_fenced: deepseek("' + call.type + '<｜tool▁sep｜>", '\\n```json\\n', '\\n```'),
  deepseek: deepseek('', '<｜tool▁sep｜>', ''),
  kimi: each(
    `<|im_assistant|>{{ message.content }}{% if message.tool_calls %}{{ '<|tool_calls_section_begin|>' }}
{%- for call in message.tool_calls %}{{ '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '<|tool_call_end|>' }}{% endfor %}{{ '<|tool_calls_section_end|>' }}{% endif %}`,
    '## Return of {{ message.tool_call_id }}\\n{{ message.content }}',
  ),
  mistral_ids: each(
    `{{ message.content }}{% for call in message.tool_calls %}${SHORT}
{{- '[TOOL_CALLS]' + call.function.name + '[CALL_ID]' + call.id + '[ARGS]' + call.function.arguments | tojson }}
{%- endfor %}`,
    '[TOOL_RESULTS]{{ message.tool_call_id }}[TOOL_CONTENT]{{ message.content }}[/TOOL_RESULTS]',
  ),
  mistral: each(
    `{{ message.content }}{% for call in message.tool_calls %}
{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{%- endfor %}`,
    '[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]',
  ),
  mistral_list: each(
    `{%- if message.tool_calls %}[TOOL_CALLS] [
{%- for call in message.tool_calls %}${SHORT}
{{- (call.function | tojson)[:-1] + ', "id": "' + call.id + '"}' }}{{ '' if loop.last else ', ' }}
{%- endfor %}]{% else %}{{ message.content }}{% endif %}`,
    '[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]',
  ),
  gemma: `{%- macro value(given) %}
{%- if given is string %}{{ '<|"|>' + given + '<|"|>' }}
{%- elif given is boolean %}{{ 'true' if given else 'false' }}
{%- elif given is mapping %}{{ '{' }}{% for key, own in given.items() -%}
{{ ',' if not loop.first }}{{ key }}:{{ value(own) }}{% endfor %}{{ '}' }}
{%- elif given is sequence %}{{ '[' }}{% for own in given -%}
{{ ',' if not loop.first }}{{ value(own) }}{% endfor %}{{ ']' }}
{%- else %}{{ given }}{% endif %}{% endmacro %}${each(
    `<|turn>model{{ '\\n' + (message.content or '').split('<channel|>')[-1] }}
{%- for call in message.tool_calls %}{{ '<|tool_call>call:' + call.function.name + value(call.function.arguments) }}
{{- '<tool_call|>' }}{% endfor %}`,
    `<|tool_response>{{ message.content }}<tool_response|>`,
  )}`,
  hermes: each(
    `<|im_start|>assistant{{ '\\n' + message.content }}{% for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{# <think> </think> #}`,
    '<tool_response>{{ message.content }}</tool_response>',
  ),
};
