/** The small random OLMoE with a tokenizer of bytes and a chat template. Its answers are noise of the right shape. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { byteTokenizer } from './byte-tokenizer.js';
import { REPO } from './sida-process.js';

const END = 2;

const TEMPLATE = `{% if tools %}{{ tools | tojson }}{% endif %}
{%- for message in messages %}{{ message.role }}: {{ message.content }}</s>{% endfor %}
{%- if add_generation_prompt %}assistant: {% endif %}{# <tool_call> </tool_call> </think> #}`;

/** Flags of a server whose generations take long enough on any machine to be aborted: every expert is loaded anew. */
export const SLOW = ['--memory-budget', '1%', '--link-latency', '1'];

export function makeChatModel(template = TEMPLATE): { model: string; remove: () => void } {
  const parent = mkdtempSync(join(tmpdir(), 'sida-chat-'));
  const model = join(parent, 'chat-tiny');
  cpSync(join(REPO, 'test/fixtures/olmoe-tiny'), model, {
    recursive: true,
    filter: (path) => !path.includes('cases.'),
  });
  writeFileSync(join(model, 'tokenizer.json'), JSON.stringify(byteTokenizer(END)));
  writeFileSync(join(model, 'chat_template.jinja'), template);
  return { model, remove: () => rmSync(parent, { recursive: true, force: true }) };
}
