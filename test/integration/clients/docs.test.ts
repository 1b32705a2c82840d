// The programs in docs/clients.md run as they are, but for the address and the name of the model.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeChatModel } from '../../support/chat-model.js';
import { REPO, ServerProcess } from '../../support/server-process.js';

const page = readFileSync(join(REPO, 'docs/clients.md'), 'utf8');
const programs = page
  .split(/^## /m)
  .slice(1)
  .flatMap((section) => {
    const [, code] = /^```js\n(import[\s\S]*?)^```$/m.exec(section) ?? [];
    return code === undefined ? [] : [{ heading: section.split('\n', 1)[0]!, code }];
  });

describe('docs/clients.md', () => {
  const { model, remove } = makeChatModel();
  // Node finds the clients only from within the repository.
  const folder = join(REPO, 'build/clients');
  let server: ServerProcess;
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    server = await ServerProcess.start(['--model', model, '--memory-budget', '50%']);
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  it('has a program for each client of Node', () => {
    expect(programs.map(({ heading }) => heading)).toEqual([
      '`openai`',
      '`@anthropic-ai/sdk`',
      '`ollama`',
      "Vercel's AI SDK",
      'LangChain',
    ]);
  });

  it.each(programs)('$heading', async ({ heading, code }) => {
    const file = join(folder, `${heading.replaceAll(/\W/g, '')}.mjs`);
    writeFileSync(
      file,
      code.replaceAll('http://localhost:8080', server.url).replaceAll('olmoe-mini', 'chat-tiny'),
    );
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], { timeout: 120_000 });
    expect(stderr).toBe('');
    expect(stdout.length).toBeGreaterThan(0);
  });
});
