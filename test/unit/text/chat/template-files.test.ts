import { describe, expect, it } from 'vitest';
import { readChatTemplates, templateName } from '../../../../src/text/chat/template-files.js';

const config = (value: object) => Buffer.from(JSON.stringify(value));

describe('chat templates', () => {
  it('come from chat_template.jinja before tokenizer_config.json', () => {
    const found = readChatTemplates(Buffer.from('A'), config({ chat_template: 'B', bos_token: '<s>' }));
    expect(found).toEqual({ texts: { default: 'A' }, variables: { bos_token: '<s>' } });
  });

  it('may be a list with names, of which one is for conversations with tools', () => {
    const list = [
      { name: 'default', template: 'A' },
      { name: 'tool_use', template: 'B' },
    ];
    const found = readChatTemplates(undefined, config({ chat_template: list }))!;
    expect([templateName(found, false), templateName(found, true)]).toEqual(['default', 'tool_use']);
    expect(templateName({ texts: { default: 'A' }, variables: {} }, true)).toBe('default');
  });

  it('know special tokens that are written as objects', () => {
    const found = readChatTemplates(
      undefined,
      config({ chat_template: 'A', eos_token: { content: '</s>' } }),
    );
    expect(found!.variables).toEqual({ eos_token: '</s>' });
  });

  it('are missing in a model without files, or without templates in them', () => {
    expect(readChatTemplates(undefined, undefined)).toBeUndefined();
    expect(readChatTemplates(undefined, config({ bos_token: null }))).toBeUndefined();
  });

  it.each([
    ['no JSON', Buffer.from('{'), 'Expected property name'],
    [
      'a template that is no text',
      config({ chat_template: 7 }),
      'chat_template: Expected a value of another kind than 7',
    ],
    [
      'a template that is too long',
      config({ chat_template: 'x'.repeat(300_000) }),
      'it has 300000 characters, the limit is 262144',
    ],
  ])('have a fault when there is %s', (_what, file, fault) => {
    expect(readChatTemplates(undefined, file)).toEqual({
      texts: {},
      variables: {},
      fault: expect.stringContaining(fault),
    });
  });
});
