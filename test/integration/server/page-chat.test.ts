// The chat pane of the page in a browser. It needs Chromium.
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { CompletionDelta, ModelInfo } from '../../../src/protocol/engine-messages.js';
import { makeChatModel } from '../../support/chat-model.js';
import { CHROMIUM } from '../../support/install-tools.js';
import { PageDriver } from '../../support/page-driver.js';
import { ServerProcess } from '../../support/server-process.js';
import { MODEL, type ScriptedRun, SPLIT } from '../../unit/queue/scripted-engine.js';
import { TestServer } from '../../unit/server/test-server.js';

const hasChromium = existsSync(CHROMIUM);
if (!hasChromium) console.warn(`SKIPPED: the chat pane in a browser, chromium is not at ${CHROMIUM}`);

describe.skipIf(!hasChromium)('the chat pane', () => {
  let browser: Browser;
  let driver: PageDriver;
  let page: Page;
  let stop: () => Promise<unknown>;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterEach(async () => {
    await page.close();
    await stop();
    expect(driver.broken).toEqual([]);
  });
  afterAll(() => browser.close());

  async function show(url: string, width = 1280): Promise<void> {
    driver = await PageDriver.open(browser, url, { width, height: 900 });
    page = driver.page;
  }

  const said = () => page.locator('#chat-log .message .text').allInnerTexts();
  const idle = () => driver.hidden('chat-stop');
  async function say(text: string): Promise<void> {
    await page.fill('#chat-input', text);
    await page.press('#chat-input', 'Enter');
  }

  describe('in front of a scripted engine', () => {
    let server: TestServer;

    /** `able` are the models that can chat, of those of `names`. */
    async function open({ names, able = names, width = 1280, flags = {}, more }: Opened = {}): Promise<void> {
      server = await TestServer.start(flags, names);
      stop = () => server.close();
      server.engines.forEach((engine, i) => {
        const chat = names === undefined || able!.includes(names[i]!) ? MODEL.chat : null;
        engine.model = { ...engine.model!, ...more, chat };
        engine.script = undefined;
        engine.onControl = ({ kind }) => {
          if (kind !== 'experts') return { kind: 'usage', usage: MODEL.usage, split: SPLIT };
          const uses = engine.controls.length;
          const experts = [{ index: 0, state: 'resident' as const, pinned: false, uses }];
          return { kind, layers: [{ layer: `decoder.${i}`, experts }] };
        };
      });
      await show(server.running.url, width);
    }
    interface Opened {
      names?: string[];
      able?: string[];
      width?: number;
      flags?: Parameters<typeof TestServer.start>[0];
      more?: Partial<ModelInfo>;
    }

    it('says what applies to answers', async () => {
      await open();
      await expect
        .poll(() => page.innerText('#chat-about'))
        .toBe('The likeliest tokens. Context: 2,048 tokens.');
      await page.close();
      await stop();
      const sampling = { temperature: 0.6, topP: 0.95, topK: 20, minP: 0, repetitionPenalty: 1 };
      await open({ more: { sampling } });
      await expect
        .poll(() => page.innerText('#chat-about'))
        .toBe('Sampling of the model: temperature 0.6, top-p 0.95, top-k 20. Context: 2,048 tokens.');
    });

    async function run(at = 0): Promise<ScriptedRun> {
      await expect.poll(() => server.engines[at]!.runs.length).toBe(1);
      return server.engines[at]!.runs[0]!;
    }
    const piece = (text: string, finishReason: CompletionDelta['finishReason'] = null): CompletionDelta => {
      return { index: 0, text, tokenIds: [7], logprobs: null, finishReason };
    };
    const conversation = ({ request }: ScriptedRun) =>
      JSON.parse((request as unknown as { conversation: string }).conversation).messages.map(
        ({ role, content }: { role: string; content: string }) => [role, content],
      );

    it('shows the text as it comes, and the experts moving beside it', async () => {
      await open();
      await say('Hello!');
      const { options, finish } = await run();
      await driver.shows('chat-state', 'The model is answering.');
      expect(await page.getAttribute('#chat-log', 'aria-busy')).toBe('true');
      expect(await page.locator('#chat-send').isHidden()).toBe(true);
      let text = '';
      for (const part of ['A fine', ' film', ',\nin two lines']) {
        options.onDelta!(piece(part));
        text += part;
        await expect.poll(said).toEqual(['Hello!', text]);
      }
      await expect.poll(() => page.locator('.layer .used').count()).toBe(1);
      const before = server.engine.controls.filter(({ kind }) => kind === 'experts').length;
      await page.waitForTimeout(900);
      expect(server.engine.controls.filter(({ kind }) => kind === 'experts').length).toBeGreaterThan(
        before + 1,
      );
      await driver.picture('chat-streaming');
      options.onDelta!(piece('.', 'stop'));
      finish();
      await driver.shows('chat-state', /^1 token, .* a second, the first after \d/);
      await idle();
      expect(await page.getAttribute('#chat-log', 'aria-busy')).toBe('false');
    });

    it('shows what the model writes as text', async () => {
      await open();
      await say('<i>Hello</i>');
      const { options, finish } = await run();
      const html = '<b>bold</b><img src=x onerror="document.title=1"><script>document.title=2</script>';
      options.onDelta!(piece(html, 'stop'));
      finish();
      await idle();
      expect(await said()).toEqual(['<i>Hello</i>', html]);
      expect(await page.locator('#chat-log :is(b, i, img, script)').count()).toBe(0);
      expect(await page.title()).toBe('sida');
    });

    it('folds reasoning away', async () => {
      await open();
      await say('Hello!');
      const { options, finish } = await run();
      options.onDelta!(piece('<think>\nhm\n</think>\n\nWell.', 'stop'));
      finish();
      await idle();
      expect(await page.innerText('#chat-log summary')).toBe('Reasoning');
      expect(await page.locator('#chat-log .assistant > .text').innerText()).toBe('Well.');
      expect(await page.locator('#chat-log details > .text').isVisible()).toBe(false);
      await page.click('#chat-log summary');
      expect(await page.innerText('#chat-log details > .text')).toBe('hm');
    });

    it('stops, keeps what was said, and begins anew', async () => {
      await open();
      await say('One');
      const first = await run();
      first.options.onDelta!(piece('half an ans'));
      await expect.poll(said).toEqual(['One', 'half an ans']);
      await page.click('#chat-stop');
      await driver.shows('chat-state', /^Stopped\.$/);
      await expect.poll(() => first.options.signal.aborted).toBe(true);
      await say('Two');
      const second = await run();
      expect(conversation(second)).toEqual([
        ['user', 'One'],
        ['assistant', 'half an ans'],
        ['user', 'Two'],
      ]);
      await page.click('#chat-new');
      await expect.poll(() => second.options.signal.aborted).toBe(true);
      expect(await said()).toEqual([]);
      await idle();
      await say('Three');
      expect(conversation(await run())).toEqual([['user', 'Three']]);
    });

    it('works with the keyboard alone', async () => {
      await open();
      await driver.shows('chat-title', 'Chat');
      await page.getByRole('textbox', { name: 'Message' }).focus();
      await page.keyboard.type('Two');
      await page.keyboard.press('Shift+Enter');
      await page.keyboard.type('lines');
      await page.keyboard.press('Enter');
      const begun = await run();
      expect(conversation(begun)).toEqual([['user', 'Two\nlines']]);
      expect(await page.inputValue('#chat-input')).toBe('');
      // A second message waits in the field until the answer has ended.
      await page.keyboard.type('Next');
      await page.keyboard.press('Enter');
      expect(await page.inputValue('#chat-input')).toBe('Next');
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.id')).toBe('chat-stop');
      await page.keyboard.press('Enter');
      await expect.poll(() => begun.options.signal.aborted).toBe(true);
      expect(await page.evaluate('document.activeElement.id')).toBe('chat-input');
      expect(await page.inputValue('#chat-input')).toBe('Next');
    });

    it('says in words why there is no answer, and gives the message back', async () => {
      await open();
      await say('Hello!');
      (await run()).fail('cannot_run');
      await driver.shows('chat-log', 'scripted cannot_run');
      await driver.shows('chat-state', 'No answer.');
      expect(await page.inputValue('#chat-input')).toBe('Hello!');
      await page.press('#chat-input', 'Enter');
      const again = await run();
      expect(conversation(again)).toEqual([['user', 'Hello!']]);
      again.options.onDelta!(piece('Well'));
      again.fail('nonfinite_output');
      await driver.shows('chat-log', 'scripted nonfinite_output');
      await driver.shows('chat-state', 'The answer broke off.');
      await idle();
      await driver.picture('chat-error');
      await page.context().setOffline(true);
      await say('Anyone?');
      await driver.shows('chat-log', 'The server cannot be reached.');
      await page.context().setOffline(false);
    });

    it('lists the models that can chat, and shows the experts of the chosen one', async () => {
      await open({ names: ['classifier', 'talker', 'writer'], able: ['talker', 'writer'] });
      await driver.shows('layers', 'decoder.0');
      const listed = () => page.locator('#chat-model option').allInnerTexts();
      await expect.poll(listed).toEqual(['talker', 'writer']);
      await page.selectOption('#chat-model', 'writer');
      await driver.shows('layers', 'decoder.2');
      expect(await page.inputValue('#models')).toBe('writer');
      await page.selectOption('#models', 'talker');
      expect(await page.inputValue('#chat-model')).toBe('talker');
      await page.selectOption('#models', 'classifier');
      await driver.shows('layers', 'decoder.0');
      await say('Hello!');
      (await run(1)).fail('cancelled');
      await driver.shows('layers', 'decoder.1');
    });

    it('says what to start where no model can chat', async () => {
      await open({ names: ['classifier', 'other'], able: [], width: 390 });
      await driver.shows('chat-text', 'sida serve --model ');
      await driver.hidden('chat');
      await driver.picture('chat-no-model');
    });

    it('sends the key, and forgets the conversation with it', async () => {
      await open({ flags: { apiKey: ['sk-page-0123456789abcdef0123456789'] } });
      await driver.shows('chat-text', 'Needs a key.');
      await driver.use('sk-page-0123456789abcdef0123456789');
      await expect.poll(() => page.locator('#chat').isVisible()).toBe(true);
      await say('Hello!');
      const { options, finish } = await run();
      options.onDelta!(piece('Yes.', 'stop'));
      finish();
      await expect.poll(said).toEqual(['Hello!', 'Yes.']);
      await page.click('#forget');
      expect(await said()).toEqual([]);
      await driver.shows('chat-text', 'Needs a key.');
    });

    it.each([320, 390, 1280])('fits %i pixels', async (width) => {
      await open({ width });
      await say(`${'long'.repeat(60)} message`);
      const { options, finish } = await run();
      options.onDelta!(piece('word '.repeat(200), 'length'));
      finish();
      await driver.shows('chat-state', 'reached its limit of tokens');
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
      // The end of the answer is in view.
      const below =
        'const log = document.getElementById("chat-log"); log.scrollHeight - log.scrollTop - log.clientHeight';
      expect(await page.evaluate(below)).toBeLessThan(2);
      await driver.picture(`chat-${width}`);
    });
  });

  it('shows the answers of a running model, turn by turn', async () => {
    const { model: directory, remove } = makeChatModel();
    const server = await ServerProcess.start(['--model', directory, '--memory-budget', '50%']);
    stop = async () => {
      await server.stop();
      remove();
    };
    await show(server.url);
    const answers: string[] = [];
    for (const question of ['Hello!', 'And then?']) {
      const requested = page.waitForRequest('**/v1/chat/completions');
      await say(question);
      const { messages, model } = (await requested).postDataJSON();
      expect(messages.map(({ content }: { content: string }) => content)).toHaveLength(
        answers.length * 2 + 1,
      );
      // Greedy, so that it is what the page is told. Chromium does not always keep the body of a stream.
      const { status, body } = await server.post('/v1/chat/completions', { model, messages });
      expect(status, JSON.stringify(body)).toBe(200);
      await idle();
      answers.push(body.choices[0].message.content);
      const shown = await page.locator('#chat-log .assistant > .text').allTextContents();
      expect(shown).toEqual(answers);
    }
    await driver.shows('chat-state', /tokens, .* of the conversation/);
    await driver.shows('experts-count', /^\d+ of \d+ on the device$/);
  }, 60_000);
});
