// The page in a browser, in front of a scripted engine. It needs Chromium.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import type { Scope } from '../../../src/access/scopes.js';
import { SidaError } from '../../../src/errors.js';
import type { CompletionDelta } from '../../../src/protocol/engine-messages.js';
import { CHROMIUM } from '../../support/install-tools.js';
import { PageDriver } from '../../support/page-driver.js';
import { MODEL, type ScriptedRun, SPLIT } from '../../unit/queue/scripted-engine.js';
import { TestServer } from '../../unit/server/test-server.js';

const keys = { full: newApiKey(), infer: newApiKey(), metrics: newApiKey(), admin: newApiKey() };
const scopes: Record<keyof typeof keys, Scope[]> = {
  full: ['infer', 'admin', 'metrics'],
  infer: ['infer'],
  metrics: ['metrics'],
  admin: ['admin'],
};
const file = join(mkdtempSync(join(tmpdir(), 'sida-page-')), 'keys');
const names = Object.keys(keys) as (keyof typeof keys)[];
writeFileSync(
  file,
  names.map((name) => keyLine({ name, scopes: scopes[name], hash: hashKey(keys[name]) })).join('\n'),
  { mode: 0o600 },
);

it('has at most 120 kB, compressed', () => {
  const built = join(import.meta.dirname, '../../../dist/page/assets');
  const bytes = readdirSync(built).map((name) => gzipSync(readFileSync(join(built, name))).length);
  expect(bytes.length).toBeGreaterThan(2);
  expect(bytes.reduce((sum, each) => sum + each, 0)).toBeLessThan(120_000);
});

const hasChromium = existsSync(CHROMIUM);
if (!hasChromium) console.warn(`SKIPPED: the page in a browser, chromium is not at ${CHROMIUM}`);

describe.skipIf(!hasChromium)('the page', () => {
  let browser: Browser;
  let server: TestServer;
  let page: Page;
  let driver: PageDriver;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterEach(async () => {
    await page.context().close();
    await server.close();
    // A key travels in a header only.
    const { requested, broken } = driver;
    for (const url of requested) for (const name of names) expect(url).not.toContain(keys[name]);
    expect(broken).toEqual([]);
  });
  afterAll(async () => {
    await browser.close();
    rmSync(dirname(file), { recursive: true });
  });

  interface Opened {
    flags?: Parameters<typeof TestServer.start>[0];
    models?: string[];
    /** Those that chat; the others have a task. */
    chat?: string[];
    width?: number;
    /** False: another process holds the budget. */
    controls?: boolean;
  }

  async function open({ flags = {}, models, chat = models, width = 1280, controls = true }: Opened = {}) {
    server = await TestServer.start(flags, models);
    server.engines.forEach((engine, i) => {
      const talks =
        models === undefined ? chat !== undefined || flags.apiKeys === undefined : chat!.includes(models[i]!);
      engine.model = { ...engine.model!, chat: talks ? MODEL.chat : null };
      engine.script = undefined;
      engine.onControl = ({ kind }) => {
        if (!controls) throw new SidaError({ code: 'cannot_run', message: 'The workers hold the budget' });
        if (kind !== 'experts') return { kind: 'usage', usage: engine.model!.usage, split: SPLIT };
        const experts = [0, 1, 2].slice(i).map((uses, index) => ({
          index,
          state: uses === 0 ? ('resident' as const) : ('absent' as const),
          pinned: false,
          uses,
        }));
        return { kind, layers: [{ layer: `decoder.${i}`, experts }] };
      };
    });
    driver = await PageDriver.open(browser, server.running.url, { width, height: 800 });
    page = driver.page;
  }

  const shows = (id: string, what: string | RegExp) => driver.shows(id, what);
  const said = () => page.locator('#chat-log .message > :is(.text, .markdown)').allInnerTexts();
  const idle = () => expect.poll(() => page.locator('#chat-stop').count()).toBe(0);
  async function say(text: string): Promise<void> {
    await page.fill('#chat-input', text);
    await page.press('#chat-input', 'Enter');
  }
  async function run(at = 0): Promise<ScriptedRun> {
    await expect.poll(() => server.engines[at]!.runs.length).toBe(1);
    return server.engines[at]!.runs[0]!;
  }
  const piece = (text: string, finishReason: CompletionDelta['finishReason'] = null): CompletionDelta => {
    const parts = [{ kind: 'content' as const, text }];
    return { index: 0, text: '', parts, tokenIds: [7], logprobs: null, finishReason };
  };
  const conversation = ({ request }: ScriptedRun) =>
    JSON.parse((request as unknown as { conversation: string }).conversation).messages.map(
      ({ role, content }: { role: string; content: string }) => [role, content],
    );

  describe('with keys', () => {
    it('asks for one, says that one is wrong, and takes another until it is signed out', async () => {
      await open({ flags: { apiKeys: file } });
      await shows('access-text', 'This server asks for an API key.');
      await shows('status', /^ready$/);
      await shows('memory-text', 'Sign in to see memory and experts.');
      expect(await page.innerText('.notice')).toBe('Sign in to use the models.');
      await driver.use('schlüssel “1”');
      await shows('access-text', 'A key has Latin letters, digits and signs, and no spaces.');
      await driver.use('wrong');
      await shows('access-text', 'The server does not know this key.');
      await driver.use(keys.full);
      await shows('budget-text', /from 500 B to/);
      await shows('experts-count', '1 of 3 in memory');
      await page.reload();
      await shows('experts-count', '1 of 3 in memory');
      await page.click('#key-button');
      await shows('access-text', 'This key opens everything.');
      await page.click('#sign-out');
      await shows('access-text', 'This server asks');
      expect(await page.evaluate('sessionStorage.length')).toBe(0);
    });

    it('says what a key opens, and lets an infer key classify', async () => {
      await open({ flags: { apiKeys: file } });
      await driver.use(keys.infer);
      await shows('memory-text', 'This key may not see memory and experts.');
      await page.click('#key-button');
      await shows('access-text', 'This key opens the models, not memory and experts.');
      await page.fill('#classify input', 'a fine film');
      await page.click('#classify button');
      await expect.poll(() => server.engine.runs.length).toBe(1);
      server.engine.runs[0]!.finish();
      await shows('scores', /negative 0\.750/);
      expect(await page.locator('#scores .best').innerText()).toBe('negative 0.750');
    });

    it('says that a key without the scope opens nothing', async () => {
      await open({ flags: { apiKeys: file } });
      await driver.use(keys.metrics);
      await page.click('#key-button');
      await shows('access-text', 'This key opens neither models nor memory.');
    });

    it('forgets the conversation that is shown with the key', async () => {
      await open({ flags: { apiKeys: file }, models: ['talker'] });
      await driver.use(keys.infer);
      await say('Hello!');
      const { options, finish } = await run();
      options.onDelta!(piece('Yes.', 'stop'));
      finish();
      await expect.poll(said).toEqual(['Hello!', 'Yes.']);
      await page.click('#key-button');
      await page.click('#sign-out');
      await shows('access-text', 'This server asks');
      await driver.use(keys.infer);
      await expect.poll(() => page.locator('.welcome').count()).toBe(1);
    });
  });

  describe('of several models', () => {
    it('lists those that chat first, and shows the experts of the chosen one', async () => {
      await open({ models: ['classifier', 'talker', 'writer'], chat: ['talker', 'writer'] });
      await expect
        .poll(() => page.locator('#model option').allInnerTexts())
        .toEqual(['talker', 'writer', 'classifier (no chat)']);
      await shows('experts-count', '0 of 2 in memory');
      await page.selectOption('#model', 'writer');
      await shows('experts-count', '0 of 1 in memory');
      await say('Hello!');
      (await run(2)).fail('cancelled');
      await page.selectOption('#model', 'classifier');
      await shows('experts-count', '1 of 3 in memory');
      expect(await page.inputValue('#task')).toBe('sst2');
    });

    it('shows those that open later, and stays with the chosen one', async () => {
      await open({ models: ['talker', 'late'] });
      await shows('status', /^ready$/);
      const late = server.engines[1]!;
      const opened = late.model!;
      late.model = undefined;
      late.enter('loading');
      await page.reload();
      await expect.poll(() => page.locator('#model').innerText()).toContain('talker');
      late.model = opened;
      late.enter('ready');
      await expect.poll(() => page.locator('#model option').count()).toBe(2);
      expect(await page.inputValue('#model')).toBe('talker');
    });
  });

  it('says where the workers hold the budget, and chats', async () => {
    await open({ controls: false });
    await shows('memory-text', 'The workers hold the budget');
    expect(await page.locator('#chat-input').count()).toBe(1);
  });

  it('dims its figures while nothing answers, and goes on', async () => {
    await open();
    await shows('status', /^ready$/);
    await page.context().setOffline(true);
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await shows('status', /^unreachable$/);
    expect(await page.locator('main.unreachable').count()).toBe(1);
    await page.context().setOffline(false);
    await shows('status', /^ready$/);
  });

  it('changes the budget, and says why it cannot', async () => {
    await open();
    let usage = { ...MODEL.usage, budgetBytes: 1000 };
    server.engine.onControl = (request) => {
      if (request.kind === 'experts')
        return { kind: 'experts', layers: [{ layer: 'decoder.0', experts: [] }] };
      if (request.kind !== 'set-budget') return { kind: 'usage', usage, split: SPLIT };
      if (Number(request.device) < 900)
        throw new SidaError({ code: 'budget_too_small', message: 'Too small' });
      usage = { ...usage, budgetBytes: Number(request.device) };
      return { kind: 'set-budget', usage, split: SPLIT };
    };
    await page.reload();
    await shows('budget-text', 'Budget 1000 B, from 500 B to 1.4 KiB for all experts');
    await shows('price', /^Room for 41 % of the experts\. Answers are the same/);
    await page.click('#take-all');
    await shows('budget-text', 'Budget 1.4 KiB');
    await page.focus('#budget');
    await page.keyboard.press('Home');
    await expect.poll(() => page.locator('aside .error').allInnerTexts()).toEqual(['Too small']);
    await shows('budget-text', 'Budget 1.4 KiB');
  });

  it('shows a budget beyond the need, and makes the newest of several changes', async () => {
    await open();
    let budgetBytes = 2 ** 30;
    const asked: number[] = [];
    server.engine.onControl = (request) => {
      if (request.kind === 'experts')
        return { kind: 'experts', layers: [{ layer: 'decoder.0', experts: [] }] };
      if (request.kind === 'set-budget') {
        budgetBytes = Number(request.device);
        asked.push(budgetBytes);
      }
      const kind = request.kind === 'set-budget' ? 'set-budget' : 'usage';
      return { kind, usage: { ...MODEL.usage, budgetBytes }, split: SPLIT };
    };
    await page.reload();
    await shows('budget-text', 'Budget 1.0 GiB');
    await shows('memory-parts', /not needed 1024 MiB/);
    await shows('price', 'Answers are the same within any budget.');
    await page.focus('#budget');
    for (const key of ['Home', 'ArrowRight', 'ArrowRight']) await page.keyboard.press(key);
    await shows('price', 'Answers are the same within any budget.');
    const [smallest, last] = [Math.min(...asked), asked.at(-1)!];
    expect(last).toBeGreaterThan(smallest);
    expect(await page.inputValue('#budget')).toBe('2');
  });

  it('does not show the budget of one model under another', async () => {
    await open({ models: ['talker', 'writer'] });
    await shows('budget-text', 'Budget');
    let answer: (() => void) | undefined;
    await page.route('**/admin/budget?model=talker', async (route) => {
      if (route.request().method() !== 'PUT') return route.continue();
      const got = await route.fetch();
      const json = await got.json();
      json.device.budget_bytes = 777;
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      await route.fulfill({ response: got, json });
    });
    const before = await page.innerText('#budget-text');
    await page.click('#give-back');
    await expect.poll(() => answer !== undefined).toBe(true);
    await page.selectOption('#model', 'writer');
    await shows('experts-count', '0 of 2 in memory');
    const put = page.waitForResponse((response) => response.request().method() === 'PUT');
    answer!();
    await put;
    await shows('budget-text', before);
  });

  it('says that a model is not loaded, and asks nothing of it until it is', async () => {
    await open({ models: ['talker', 'writer'] });
    await shows('experts-count', '1 of 3 in memory');
    const look = () => page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    server.engine.enter('idle');
    await look();
    await shows('memory-text', 'The model is not loaded.');
    expect(await page.locator('#experts').count()).toBe(0);
    const asked = () => driver.requested.filter((url) => url.includes('/admin/')).length;
    const before = asked();
    await look();
    await page.selectOption('#model', 'writer');
    await shows('experts-count', '0 of 2 in memory');
    // One for the budget of the other model, and one for its stream.
    expect(asked()).toBe(before + 2);
    await page.selectOption('#model', 'talker');
    await shows('memory-text', 'The model is not loaded.');
    server.engine.enter('ready');
    await look();
    await shows('experts-count', '1 of 3 in memory');
  });

  it('shows memory and experts to a key that opens nothing else', async () => {
    await open({ flags: { apiKeys: file } });
    await driver.use(keys.admin);
    await shows('budget-text', 'Budget');
    await shows('experts-count', '1 of 3 in memory');
    await page.click('#key-button');
    await shows('access-text', 'This key opens memory and experts, not the models.');
  });

  it('has no stream while it is hidden', async () => {
    await open();
    await shows('experts-count', '1 of 3 in memory');
    const streams = () => driver.requested.filter((url) => url.includes('/events')).length;
    const ended = page.waitForEvent('requestfailed', (request) => request.url().includes('/events'));
    const turn = (state: string) =>
      page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'))`);
    await turn('hidden');
    await ended;
    await shows('experts-count', '1 of 3 in memory');
    const before = streams();
    await turn('visible');
    await expect.poll(streams).toBe(before + 1);
  });

  describe('in a chat', () => {
    it('shows the text as it comes, and then its speed', async () => {
      await open();
      await say('Hello!');
      const { options, finish } = await run();
      expect(await page.getAttribute('#chat-log', 'aria-busy')).toBe('true');
      let text = '';
      for (const part of ['A fine', ' film', ', *truly*']) {
        options.onDelta!(piece(part));
        text += part;
        await expect.poll(said).toEqual(['Hello!', text.replaceAll('*', '')]);
      }
      expect(await page.locator('#chat-log em').innerText()).toBe('truly');
      options.onDelta!(piece('.', 'length'));
      finish();
      await idle();
      const about = await page.innerText('#chat-log .about');
      expect(about).toMatch(/^The answer reached its limit of tokens\. 1 token, the first after \d/);
      expect(about).toContain('5 experts needed: 3 resident, 2 on demand; 100 B loaded.');
      await shows('context', /10 of 2,048 tokens/);
    });

    it('shows HTML and scripts of models as text, and no images', async () => {
      await open();
      await say('<i>Hello</i>');
      const { options, finish } = await run();
      const html = '<b>bold</b><img src=x onerror="document.title=1"><script>document.title=2</script>';
      options.onDelta!(piece(`${html} [link](javascript:document.title=3)`, 'stop'));
      finish();
      await idle();
      expect(await said()).toEqual(['<i>Hello</i>', `${html} link`]);
      expect(await page.locator('#chat-log :is(b, i, img, script)').count()).toBe(0);
      await page.click('#chat-log a');
      expect(await page.title()).toBe('sida');
    });

    it('folds reasoning away', async () => {
      await open();
      await say('Hello!');
      const { options, finish } = await run();
      options.onDelta!({ ...piece(''), parts: [{ kind: 'reasoning', text: 'hm' }] });
      options.onDelta!(piece('Well.', 'stop'));
      finish();
      await idle();
      expect(await said()).toEqual(['Hello!', 'Well.']);
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
      await expect.poll(() => page.innerText('#chat-log .about')).toMatch(/^Stopped\./);
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

    it('edits a message and asks again from there, regenerates, and keeps conversations', async () => {
      await open();
      const answer = async (text: string) => {
        const { options, finish } = await run();
        options.onDelta!(piece(text, 'stop'));
        finish();
        await idle();
      };
      await say('One');
      await answer('First');
      await page.click('#chat-log .user button');
      expect(await page.inputValue('#chat-input')).toBe('One');
      // Nothing is lost before the question is sent.
      expect(await said()).toEqual(['One', 'First']);
      expect(await page.evaluate('document.activeElement.id')).toBe('chat-input');
      await say('Other');
      await answer('Second');
      expect(await said()).toEqual(['Other', 'Second']);
      await page.click('#regenerate');
      const again = await run();
      expect(conversation(again).at(-1)).toEqual(['user', 'Other']);
      await answer('Third');
      expect(await said()).toEqual(['Other', 'Third']);
      await page.reload();
      await expect
        .poll(() => page.locator('#conversation option').allInnerTexts())
        .toEqual(['New conversation', 'Other']);
      await page.selectOption('#conversation', { label: 'Other' });
      await expect.poll(said).toEqual(['Other', 'Third']);
      await page.click('#delete');
      await expect.poll(said).toEqual([]);
      expect(await page.locator('#conversation option').count()).toBe(1);
    });

    /** Asks once, and has the answer. */
    const exchange = async (question: string, text: string) => {
      await say(question);
      const { options, finish } = await run();
      options.onDelta!(piece(text, 'stop'));
      finish();
      await idle();
    };

    it('asks again with the seed and the settings of the answer, and judges only whole answers', async () => {
      await open();
      await page.click('#settings summary');
      await page.fill('#temperature', '0.5');
      await say('Hello!');
      const first = await run();
      first.options.onDelta!(piece('Yes.', 'stop'));
      first.finish();
      await idle();
      await page.fill('#system', 'Be brief.');
      await page.press('#system', 'Tab');
      await page.reload();
      await page.selectOption('#conversation', { label: 'Hello!' });
      await page.click('#ask-again');
      const second = await run();
      expect(conversation(second)).toEqual(conversation(first));
      const sampling = ({ request }: ScriptedRun) => (request as unknown as { sampling: object }).sampling;
      expect(sampling(first)).toMatchObject({ temperature: 0.5 });
      expect(sampling(second)).toEqual(sampling(first));
      second.options.onDelta!(piece('Ye'));
      await expect.poll(() => page.locator('#comparison .markdown').allInnerTexts()).toEqual(['Yes.', 'Ye']);
      await page.click('#chat-stop');
      await idle();
      expect(await page.locator('#compared').count()).toBe(0);
      await page.click('#ask-again');
      await expect.poll(() => server.engine.runs.filter((one) => !one.options.signal.aborted).length).toBe(1);
      // Another conversation has no comparison.
      await page.click('#chat-new');
      expect(await page.locator('#comparison').count()).toBe(0);
      await idle();
    });

    it('does not ask a stopped answer again', async () => {
      await open();
      await say('One');
      (await run()).options.onDelta!(piece('half'));
      await expect.poll(said).toEqual(['One', 'half']);
      await page.click('#chat-stop');
      await page.waitForSelector('#regenerate');
      expect(await page.locator('#ask-again').count()).toBe(0);
      expect(await page.innerText('#chat-log .about')).not.toContain('prompt');
    });

    it('keeps a conversation that cannot be asked anew', async () => {
      await open();
      await exchange('One', 'First');
      await page.context().setOffline(true);
      await page.click('#regenerate');
      await shows('chat-log', 'The server cannot be reached.');
      expect(await said()).toEqual(['One', 'First']);
      expect(await page.evaluate("localStorage.getItem('sida-conversations')")).toContain('First');
      await page.context().setOffline(false);
    });

    it('keeps the conversations of other tabs', async () => {
      await open();
      const other = await page.context().newPage();
      await other.goto(server.running.url);
      await exchange('Mine', 'Yes');
      await expect.poll(() => other.locator('#conversation option').count()).toBe(2);
      await other.fill('#chat-input', 'Theirs');
      await other.press('#chat-input', 'Enter');
      (await run()).finish();
      await expect
        .poll(() => page.locator('#conversation option').allInnerTexts())
        .toEqual(['New conversation', 'Theirs', 'Mine']);
      await other.close();
    });

    it('keeps what was said of an answer that was left', async () => {
      await open();
      await say('One');
      (await run()).options.onDelta!(piece('half'));
      await expect.poll(said).toEqual(['One', 'half']);
      await page.click('#chat-new');
      await page.selectOption('#conversation', { label: 'One' });
      await expect.poll(said).toEqual(['One', 'half']);
    });

    it('begins without what it cannot read', async () => {
      await open();
      await page.evaluate(
        `localStorage.setItem('sida-conversations', '[null, {"id": "a"}, {"id": "b", "messages": [null]}]')`,
      );
      await page.reload();
      await exchange('One', 'First');
      expect(await said()).toEqual(['One', 'First']);
    });

    it('sends the system prompt and the sampling of the conversation', async () => {
      await open();
      await page.click('#settings summary');
      await page.fill('#system', 'Be brief.');
      await page.fill('#temperature', '0.5');
      await page.fill('#max_tokens', '20');
      await say('Hello!');
      const { request } = await run();
      expect(request).toMatchObject({ maxTokens: 20, sampling: { temperature: 0.5 } });
      expect(conversation({ request } as ScriptedRun)).toEqual([
        ['system', 'Be brief.'],
        ['user', 'Hello!'],
      ]);
    });

    it('adds files of text, and refuses others by name', async () => {
      await open();
      await page.setInputFiles('#files', [
        { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('two\nlines') },
        { name: 'cat.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0, 1]) },
      ]);
      await expect
        .poll(() => page.innerText('#composer .error'))
        .toMatch(/^cat\.png is not a text .* no images\.$/);
      expect(await page.inputValue('#chat-input')).toContain('notes.txt:\n```\ntwo\nlines\n```');
    });

    it('works with the keyboard alone', async () => {
      await open();
      await page.getByRole('textbox', { name: 'Message' }).focus();
      await page.keyboard.type('Two');
      await page.keyboard.press('Shift+Enter');
      await page.keyboard.type('lines');
      await page.keyboard.press('Enter');
      const begun = await run();
      expect(conversation(begun)).toEqual([['user', 'Two\nlines']]);
      // A second message waits in the field until the answer has ended.
      await page.keyboard.type('Next');
      await page.keyboard.press('Enter');
      expect(await page.inputValue('#chat-input')).toBe('Next');
      await page.focus('#chat-stop');
      await page.keyboard.press('Enter');
      await expect.poll(() => begun.options.signal.aborted).toBe(true);
      await idle();
      expect(await page.inputValue('#chat-input')).toBe('Next');
    });

    it('says in words why there is no answer, and gives the message back', async () => {
      await open();
      await say('Hello!');
      (await run()).fail('cannot_run');
      await shows('chat-log', 'scripted cannot_run');
      expect(await page.inputValue('#chat-input')).toBe('Hello!');
      expect(await said()).toEqual([]);
      await page.press('#chat-input', 'Enter');
      const again = await run();
      expect(conversation(again)).toEqual([['user', 'Hello!']]);
      again.options.onDelta!(piece('Well'));
      again.fail('nonfinite_output');
      await shows('chat-log', 'scripted nonfinite_output');
      expect(await said()).toEqual(['Hello!', 'Well']);
      await page.context().setOffline(true);
      await say('Anyone?');
      await shows('chat-log', 'The server cannot be reached.');
      await page.context().setOffline(false);
    });

    it.each([320, 360, 1280])('fits %i pixels', async (width) => {
      await open({ width });
      await say(`${'long'.repeat(60)} message`);
      const { options, finish } = await run();
      options.onDelta!(piece('word '.repeat(200), 'length'));
      finish();
      await idle();
      const beyond = 'document.documentElement.scrollWidth - innerWidth';
      expect(await page.evaluate(beyond)).toBeLessThanOrEqual(0);
      // The end of the answer and the composer are in view.
      const below =
        'const log = document.getElementById("chat-log"); log.scrollHeight - log.scrollTop - log.clientHeight';
      expect(await page.evaluate(below)).toBeLessThan(2);
      await expect(page.locator('#chat-input').boundingBox()).resolves.toMatchObject({
        y: expect.any(Number),
      });
      expect((await page.locator('#chat-input').boundingBox())!.y).toBeLessThan(800);
      await driver.picture(`chat-${width}`);
      await page.click('#as-code summary');
      await page.click('text=Copy as curl');
      await page.waitForSelector('#as-code pre');
      expect(await page.evaluate(beyond)).toBeLessThanOrEqual(0);
      const box = (await page.locator('#as-code pre').boundingBox())!;
      expect(box.x + box.width).toBeLessThanOrEqual(width);
    });
  });

  it('lists a request with what it may take, and cancels it', async () => {
    await open();
    await say('Hello!');
    const { options } = await run();
    options.onDelta!(piece('Well'));
    await shows('requests', /^chat: \d generated, at most [\d,]+ tokens; since \d/);
    await page.getByRole('button', { name: /^Cancel chat req_/ }).click();
    await expect.poll(() => options.signal.aborted).toBe(true);
    await shows('chat-log', 'An operator cancelled the request');
    await expect.poll(() => page.locator('#requests').count()).toBe(0);
  });

  it('switches prediction on again where a comparison fails, and soon where the page is gone', async () => {
    await open();
    server.engine.model = { ...MODEL, predictor: { ...MODEL.predictor, name: 'lstm' } };
    const sets: object[] = [];
    const answer = server.engine.onControl!;
    let state = { enabled: true, needed: true, routeAhead: 0 };
    server.engine.onControl = (request) => {
      if (request.kind !== 'predictor') return answer(request);
      if (request.set !== undefined) {
        sets.push(request.set);
        state = { ...state, enabled: request.set.enabled };
      }
      return { kind: 'predictor', ...state };
    };
    await page.reload();
    await page.click('#compare');
    for (let sample = 0; sample < 3; sample += 1) (await run()).finish();
    await expect.poll(() => sets.length).toBe(2);
    expect(sets.at(-1)).toEqual({ enabled: false, seconds: 120 });
    (await run()).fail('cannot_run');
    await expect.poll(() => page.locator('aside .error').allInnerTexts()).toEqual(['scripted cannot_run']);
    expect(sets.at(-1)).toEqual({ enabled: true });
    // A tab that is closed switches it on, too.
    await page.click('#compare');
    for (let sample = 0; sample < 3; sample += 1) (await run()).finish();
    await expect.poll(() => state.enabled).toBe(false);
    await page.goto('about:blank');
    await expect.poll(() => state.enabled).toBe(true);

    state = { ...state, needed: false };
    await page.goto(server.running.url);
    await page.click('#compare');
    await shows('prediction-text', /^Every expert is in memory/);
    state = { ...state, needed: true, enabled: false };
    await page.click('#compare');
    await shows('prediction-text', 'Prediction is switched off.');
    await page.click('#switch-on');
    await page.waitForSelector('#compare');
    expect(state.enabled).toBe(true);
  });

  it('tells who changed the budget', async () => {
    await open();
    await server.ask('/admin/budget', { method: 'PUT', body: { device: '1GiB' } });
    await page.click('#budget-log summary');
    await shows('budget-log', /1\.0 GiB → 1\.0 GiB, by the API$/);
    await page.click('#give-back');
    await expect.poll(() => page.locator('#budget-log li').first().innerText()).toMatch(/, by this page$/);
  });

  it('translates with a model that has languages, and with no other', async () => {
    await open({ models: ['talker', 'interpreter'], chat: ['talker'] });
    server.engines[1]!.model!.languages = ['deu_Latn', 'eng_Latn'];
    await page.reload();
    await expect
      .poll(() => page.locator('#panes button').allInnerTexts())
      .toEqual(['Chat', 'Classify', 'Embed']);
    await page.selectOption('#model', 'interpreter');
    await expect
      .poll(() => page.locator('#panes button').allInnerTexts())
      .toEqual(['Translate', 'Classify', 'Embed']);
    await page.fill('#translate textarea', 'good');
    await page.click('#translate button');
    const begun = await run(1);
    expect(begun.request).toMatchObject({ inputs: ['good'], source: 'eng_Latn', target: 'deu_Latn' });
    begun.finish();
    await shows('translation', /^gut/);
    expect(await driver.violations()).toEqual([]);
  });

  it('shows every route and schema of the interface', async () => {
    await open();
    await page.goto(`${server.running.url}/docs`);
    const { paths, components } = (await server.ask('/openapi.json')).json;
    await expect.poll(() => page.locator('details').count()).toBeGreaterThan(20);
    const ids = await page.evaluate("[...document.querySelectorAll('details')].map(({ id }) => id)");
    const operations = Object.values<Record<string, { operationId: string }>>(paths).flatMap(Object.values);
    expect(ids).toEqual(
      expect.arrayContaining([
        ...operations.map(({ operationId }) => operationId),
        ...Object.keys(components.schemas).map((name) => `schema-${name}`),
      ]),
    );
    await page.click('text=POST /v1/classify');
    await page.locator('details[open] a').first().click();
    await expect.poll(() => page.locator('details[open][id^=schema-]').count()).toBe(1);
  });
});
