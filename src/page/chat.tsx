/** Chats with a model. Conversations stay in this browser. */
import { effect, signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bodyOf, streamAnswer, type Told } from './answering.js';
import { reasonOf } from './api.js';
import { Compared, type Comparison, isComplete, Log } from './chat-log.js';
import { Composer } from './composer.js';
import { Conversations } from './conversation-list.js';
import {
  asCode,
  type Conversation,
  loadConversations,
  type Message,
  newConversation,
  retitled,
  type Settings,
  storeConversations,
} from './conversations.js';
import { speedOf } from './cost.js';
import { count, size } from './numbers.js';
import { Price } from './price.js';
import { QUESTIONS } from './samples.js';
import { adminRefused, keys, type Model, measured, memory, refused } from './server.js';
import { SettingsForm } from './settings.js';
import { lastAsked } from './token-experts.js';

const all = signal<Conversation[]>(loadConversations() ?? []);
/** It goes on with another model that is chosen, and ends with the key. */
const current = signal<Conversation>(newConversation());
effect(() => {
  keys.value;
  refused.value;
  current.value = newConversation();
});

/** Other tabs store conversations, too. */
const stored = () => loadConversations() ?? all.value;
function store(conversations: Conversation[]): void {
  all.value = conversations.filter(({ messages }) => messages.length > 0);
  storeConversations(all.value);
}

/** Changes a conversation, which may have been left since, or deleted. */
function change(id: string, next: Partial<Conversation>): void {
  const others = stored().filter((one) => one.id !== id);
  const shown = current.value.id === id;
  const old = shown ? current.value : all.value.find((one) => one.id === id);
  if (old === undefined) return;
  const changed = { ...old, ...next, changedMs: Date.now() };
  if (shown) current.value = changed;
  store([changed, ...others]);
}

interface Editing {
  /** The place of the question that is asked in other words. */
  at: number;
  /** What the field held before. */
  draft: string;
}

export function Chat({ model }: { model: Model }) {
  const running = useSignal<AbortController | undefined>(undefined);
  const comparison = useSignal<Comparison | undefined>(undefined);
  const failed = useSignal('');
  const draft = useSignal('');
  const editing = useSignal<Editing | undefined>(undefined);
  useEffect(() => () => running.value?.abort(), [running]);
  useEffect(() => {
    const onStorage = () => {
      all.value = stored();
      const other = all.value.find(({ id }) => id === current.value.id);
      if (running.value === undefined && other !== undefined && other.changedMs > current.value.changedMs)
        current.value = other;
    };
    addEventListener('storage', onStorage);
    return () => removeEventListener('storage', onStorage);
  }, [running]);

  const open = (conversation: Conversation) => {
    running.value?.abort();
    running.value = comparison.value = editing.value = undefined;
    failed.value = '';
    current.value = conversation;
  };

  /** Streams an answer to `before` and shows it by `show` as it grows. Resolves with it, and why it broke off. */
  const answer = async (
    before: Message[],
    request: { seed: number; settings: Settings },
    show: (message: Message) => void,
  ): Promise<Message> => {
    const abort = new AbortController();
    running.value = abort;
    failed.value = '';
    const budget = memory.value?.budget_bytes;
    const messageOf = (told: Told, stopped = false): Message => {
      const { text, reasoning, experts, ...about } = told;
      return {
        role: 'assistant',
        content: text,
        ...(reasoning !== '' && { reasoning }),
        about: {
          ...{ ...about, model: model.id, stopped, request },
          ...(experts && { experts }),
          ...(budget && { budget }),
        },
      };
    };
    let told: Told | undefined;
    try {
      const body = bodyOf(model.id, { settings: request.settings, messages: before }, request.seed);
      told = await streamAnswer(body, {
        signal: abort.signal,
        withExperts: adminRefused.value === undefined,
        onText: (so) => {
          told = so;
          show(messageOf(so));
        },
      });
      const speed = speedOf(told);
      if (speed !== undefined && budget !== undefined && memory.value?.budget_bytes === budget)
        measured.value = { model: model.id, budget, seconds: 1 / speed };
      return messageOf(told);
    } catch (error) {
      const { aborted } = abort.signal;
      const message = told === undefined ? undefined : messageOf(told, aborted);
      return { role: 'assistant', content: '', ...message, ...(!aborted && { error: reasonOf(error) }) };
    } finally {
      if (running.value === abort) running.value = undefined;
    }
  };

  /** Asks `text` after `base`. False where no answer came; the conversation is then as it was. */
  const say = async (text: string, base: Message[]): Promise<boolean> => {
    comparison.value = undefined;
    const { id, messages, title, settings } = current.value;
    const asked: Message[] = [...base, { role: 'user', content: text }];
    change(id, { messages: asked, title: retitled(current.value, base, text) });
    const request = { seed: 1 + Math.floor(Math.random() * 2 ** 31), settings };
    const done = await answer(asked, request, (message) => {
      if (current.value.id === id) current.value = { ...current.value, messages: [...asked, message] };
    });
    const came = done.content !== '' || done.reasoning !== undefined;
    if (came || (done.error === undefined && done.about?.stopped === false)) {
      change(id, { messages: [...asked, done] });
      return true;
    }
    change(id, { messages, title });
    if (current.value.id !== id) return true;
    failed.value = done.error ?? '';
    return false;
  };

  const { messages } = current.value;
  const lastAnswer = messages.at(-1);
  const answered = lastAnswer?.role === 'assistant' && running.value === undefined;
  const before = messages.slice(0, -1);
  const about = lastAnswer?.about;
  const again = isComplete(lastAnswer) && about?.model === model.id ? about.request : undefined;

  useEffect(() => {
    lastAsked.value = again && bodyOf(model.id, { messages: before, settings: again.settings }, again.seed);
  }, [again]);
  useEffect(
    () => () => {
      lastAsked.value = undefined;
    },
    [],
  );

  const send = async (text: string) => {
    const { value: edited } = editing;
    editing.value = undefined;
    const sent = await say(text, edited === undefined ? messages : messages.slice(0, edited.at));
    if (draft.value !== '') return;
    if (sent) draft.value = edited?.draft ?? '';
    else {
      // Nothing came, so the question goes back to where it can be sent again.
      draft.value = text;
      editing.value = edited;
    }
  };
  const regenerate = () => {
    editing.value = undefined;
    void say(before.at(-1)!.content, before.slice(0, -1));
  };
  const edit = (at: number) => {
    editing.value = { at, draft: editing.value?.draft ?? draft.value };
    draft.value = messages[at]!.content;
    focusField();
  };
  const keep = () => {
    draft.value = editing.value!.draft;
    editing.value = undefined;
    focusField();
  };
  const askAgain = async (request: { seed: number; settings: Settings }) => {
    const { id } = current.value;
    const old = lastAnswer!;
    const show = (now: Message) => {
      if (current.value.id === id) comparison.value = { before: old, now };
    };
    show({ role: 'assistant', content: '' });
    show(await answer(before, request, show));
  };

  return (
    <div class="chat">
      <h2 class="unseen">Chat</h2>
      <Conversations
        all={all.value}
        current={current.value}
        onOpen={open}
        onRename={(title) => change(current.value.id, { title })}
        onDelete={() => {
          store(stored().filter(({ id }) => id !== current.value.id));
          open(newConversation());
        }}
      />
      <Log messages={messages} running={running.value !== undefined} onEdit={edit}>
        {messages.length === 0 && <Welcome model={model} onAsk={(text) => void say(text, [])} />}
        {failed.value !== '' && (
          <p class="error" role="alert">
            {failed.value}
          </p>
        )}
        {comparison.value !== undefined && (
          <Compared {...comparison.value} running={running.value !== undefined} />
        )}
      </Log>
      {answered && (
        <div class="tools" id="answer-tools">
          <button type="button" id="regenerate" onClick={regenerate}>
            Regenerate
          </button>
          {adminRefused.value === undefined && again !== undefined && (
            <button type="button" id="ask-again" onClick={() => void askAgain(again)}>
              Ask again within {size(memory.value?.budget_bytes ?? 0)}
            </button>
          )}
          {about?.request !== undefined && (
            <AsCode
              body={bodyOf(
                about.model,
                { messages: before, settings: about.request.settings },
                about.request.seed,
              )}
            />
          )}
        </div>
      )}
      {editing.value !== undefined && (
        <p class="tools quiet" id="editing">
          Sending replaces the question and all that follows it.{' '}
          <button type="button" class="plain" onClick={keep}>
            Keep them
          </button>
        </p>
      )}
      <Composer
        draft={draft}
        running={running.value !== undefined}
        onSend={(text) => void send(text)}
        onStop={() => running.value?.abort()}
      />
      {running.value === undefined && (
        <Price
          draft={draft}
          bodyOf={(content) => {
            const base = editing.value === undefined ? messages : messages.slice(0, editing.value.at);
            const asked: Message[] = [...base, { role: 'user', content }];
            return bodyOf(model.id, { settings: current.value.settings, messages: asked }, 1);
          }}
        />
      )}
      <div class="under">
        <ContextMeter model={model} messages={messages} />
        <SettingsForm
          model={model}
          settings={current.value.settings}
          onChange={(settings) => {
            if (messages.length > 0) change(current.value.id, { settings });
            else current.value = { ...current.value, settings };
          }}
        />
      </div>
    </div>
  );
}

const focusField = () => document.getElementById('chat-input')!.focus();

function expertsText({ experts_per_layer: own }: Model): string {
  if (typeof own === 'number') return String(own);
  return `${Math.min(...own)} to ${Math.max(...own)}`;
}

function Welcome({ model, onAsk }: { model: Model; onAsk: (text: string) => void }) {
  return (
    <div class="welcome">
      {model.description !== null && <p id="description">{model.description}</p>}
      <p>
        <strong>{model.id}</strong> has {model.moe_layers.length} layers with {expertsText(model)} experts
        each, of which a token needs {model.experts_per_token}. Ask something, pull the memory budget down,
        and ask again: the answer stays the same.
      </p>
      <p class="tools">
        {QUESTIONS.map((text) => (
          <button type="button" class="chip" key={text} onClick={() => onAsk(text)}>
            {text}
          </button>
        ))}
      </p>
    </div>
  );
}

/** The last request as a program. Browsers copy on secure pages alone, so that it is shown, too. */
function AsCode({ body }: { body: object }) {
  const shown = useSignal<string | undefined>(undefined);
  const show = (kind: (typeof KINDS)[number]) => {
    shown.value = asCode(kind, location.origin, body);
    void navigator.clipboard?.writeText(shown.value).catch(() => undefined);
  };
  return (
    <details id="as-code">
      <summary>Use from code</summary>
      {KINDS.map((kind) => (
        <button type="button" key={kind} class="plain" onClick={() => show(kind)}>
          Copy as {kind}
        </button>
      ))}
      {shown.value !== undefined && <pre>{shown.value}</pre>}
    </details>
  );
}
const KINDS = ['curl', 'JavaScript', 'Python'] as const;

function ContextMeter({ model, messages }: { model: Model; messages: readonly Message[] }) {
  const abouts = messages.flatMap(({ about }) => about ?? []);
  // The prompt is counted when an answer ends. Until then it is at least what the answer before it took.
  const counted = abouts.findLast(({ promptTokens }) => promptTokens > 0);
  const growing = abouts.at(-1);
  const used =
    (counted === undefined ? 0 : counted.promptTokens + counted.tokens) +
    (growing === undefined || growing === counted ? 0 : growing.tokens);
  const most = model.context_tokens;
  return (
    <span id="context" class="quiet">
      <meter value={used} max={most} high={0.9 * most} aria-label="Context in use" /> {count(used)} of{' '}
      {count(most)} tokens of context
    </span>
  );
}
