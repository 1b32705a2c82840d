/** The page: models and key above, the chat or a task on the left, memory and experts on the right. */
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { ask, mayBeKey, reasonOf, storedKey } from './api.js';
import { Chat } from './chat.js';
import { Classify } from './classify.js';
import { Embed } from './embed.js';
import { Experts } from './experts.js';
import { Memory } from './memory.js';
import { Prediction } from './prediction.js';
import { Requests } from './requests.js';
import {
  adminRefused,
  chats,
  choose,
  chosenId,
  hasTasks,
  isOpened,
  listModels,
  type Model,
  model,
  models,
  refused,
  status,
  translates,
  useKey,
} from './server.js';
import { Speed } from './speed.js';
import { Translate } from './translate.js';

const VIEWS = ['Ask', 'Memory', 'Experts'] as const;

export function App() {
  const view = useSignal<(typeof VIEWS)[number]>('Ask');
  return (
    <>
      <header>
        <h1>sida</h1>
        <ModelSelect />
        <span
          id="status"
          role="status"
          class={`badge ${status.value.kind}`}
          title={status.value.reason || undefined}
        >
          {status.value.text}
        </span>
        <Access />
      </header>
      <nav aria-label="Parts of the page">
        {VIEWS.map((name) => (
          <button
            type="button"
            key={name}
            aria-pressed={view.value === name}
            onClick={() => (view.value = name)}
          >
            {name}
          </button>
        ))}
      </nav>
      <main data-view={view.value} class={status.value.kind === 'bad' ? 'unreachable' : ''}>
        <section class="view-Ask" aria-label="Ask the model">
          <Ask />
        </section>
        <aside aria-label="The server">
          <Memory />
          <Experts />
          <Speed />
          <Requests />
          <Prediction />
          <footer class="quiet">
            <a href="/docs">Interface</a> {adminRefused.value === undefined && <a href="/metrics">Metrics</a>}
          </footer>
        </aside>
      </main>
    </>
  );
}

function Ask() {
  if (refused.value !== undefined)
    return (
      <p class="notice">
        {refused.value.status === 401 ? 'Sign in to use the models.' : refused.value.message}
      </p>
    );
  if (models.value.length === 0) return <p class="notice">No model has opened yet: {status.value.text}.</p>;
  const chosen = model.value;
  if (chosen !== undefined && !isOpened(chosen)) return <Load key={chosen.id} id={chosen.id} />;
  if (chosen !== undefined && panesOf(chosen).length > 0) return <Panes key={chosen.id} model={chosen} />;
  const able = models.value.filter((listed) => isOpened(listed) && panesOf(listed).length > 0);
  return (
    <p class="notice">
      This model has no tokenizer. Use it through the <a href="/docs">interface</a>
      {able.length > 0 && `, or choose ${able.map(({ id }) => id).join(', ')} above`}.
    </p>
  );
}

const PANES = [
  { name: 'Chat', has: chats, Pane: Chat },
  { name: 'Translate', has: translates, Pane: Translate },
  { name: 'Classify', has: hasTasks, Pane: Classify },
  { name: 'Embed', has: ({ has_tokenizer }: Model) => has_tokenizer, Pane: Embed },
];
const panesOf = (model: Model) => PANES.filter(({ has }) => has(model));

/** What the model can do, one at a time. */
function Panes({ model }: { model: Model }) {
  const able = panesOf(model);
  const chosen = useSignal(able[0]!.name);
  const { Pane } = able.find(({ name }) => name === chosen.value) ?? able[0]!;
  return (
    <>
      {able.length > 1 && (
        <fieldset id="panes" class="tools" aria-label="What the model does">
          {able.map(({ name }) => (
            <button
              type="button"
              key={name}
              class="tab"
              aria-pressed={chosen.value === name}
              onClick={() => (chosen.value = name)}
            >
              {name}
            </button>
          ))}
        </fieldset>
      )}
      {Pane !== Chat && model.description !== null && <p class="quiet">{model.description}</p>}
      <Pane model={model} />
    </>
  );
}

/** A model that is loaded on demand. */
function Load({ id }: { id: string }) {
  const says = useSignal('');
  const load = async () => {
    says.value = 'Loading …';
    try {
      await ask('/api/generate', { method: 'POST', body: { model: id, prompt: '', stream: false } });
      await listModels();
    } catch (error) {
      says.value = reasonOf(error);
    }
  };
  return (
    <p class="notice">
      This model is loaded when it is asked for.{' '}
      <button type="button" id="load" onClick={() => void load()}>
        Load it
      </button>{' '}
      {says.value}
    </p>
  );
}

function ModelSelect() {
  if (models.value.length === 0) return null;
  const [first] = models.value;
  if (models.value.length === 1) return <strong id="model">{first!.id}</strong>;
  return (
    <select
      id="model"
      aria-label="Model"
      value={chosenId.value}
      onChange={({ currentTarget }) => choose(currentTarget.value)}
    >
      {models.value.map((listed) => (
        <option key={listed.id} value={listed.id}>
          {listed.id}
          {isOpened(listed) ? (listed.chat ? '' : ' (no chat)') : ' (not loaded)'}
        </option>
      ))}
    </select>
  );
}

/** Signs in and out, and says what the key opens. */
function Access() {
  const open = useSignal(false);
  const wrong = useSignal('');
  const field = useRef<HTMLInputElement>(null);
  const statuses = [refused.value?.status, adminRefused.value?.status];
  const needed = statuses.includes(401);
  const signedIn = storedKey() !== '';
  if (!needed && !signedIn && !statuses.includes(403)) return null;
  const says = needed
    ? signedIn
      ? 'The server does not know this key.'
      : 'This server asks for an API key.'
    : `This key opens ${opens(refused.value?.status, adminRefused.value?.status)}.`;
  if (!needed && !open.value)
    return (
      <button type="button" id="key-button" onClick={() => (open.value = true)}>
        Key
      </button>
    );
  const signIn = (event: Event) => {
    event.preventDefault();
    const key = field.current!.value.trim();
    if (!mayBeKey(key)) {
      wrong.value = 'A key has Latin letters, digits and signs, and no spaces.';
      return;
    }
    wrong.value = '';
    open.value = false;
    useKey(key);
  };
  return (
    <form id="access" onSubmit={signIn}>
      <span id="access-text" class="quiet">
        {wrong.value || says}
      </span>
      <label>
        Key <input id="key" ref={field} type="password" autocomplete="off" spellcheck={false} />
      </label>
      <button type="submit">Sign in</button>
      {signedIn && (
        <button type="button" id="sign-out" onClick={() => useKey('')}>
          Sign out
        </button>
      )}
    </form>
  );
}

function opens(models: number | undefined, admin: number | undefined): string {
  if (models === undefined && admin === undefined) return 'everything';
  if (models === undefined) return 'the models, not memory and experts';
  return admin === undefined ? 'memory and experts, not the models' : 'neither models nor memory';
}
