/** The part of the page's script that chats with a model. */
export const CHAT_SCRIPT = `/** The conversation so far, as the server takes it. */
let messages = [];
/** Cancels the answer that is streamed; undefined while there is none. */
let answering;

const NO_CHAT = 'No model of this server can chat. Start it with one that has a chat template, for example: '
  + 'sida serve --model models/olmoe-mini';

/** What applies to answers of the model. */
function aboutChat({ context_tokens: context, sampling }) {
  const drawn = sampling
    ? 'Sampling of the model: temperature ' + sampling.temperature + ', top-p ' + sampling.top_p
      + (sampling.top_k > 0 ? ', top-k ' + sampling.top_k : '') + (sampling.min_p > 0 ? ', min-p ' + sampling.min_p : '')
    : 'The likeliest tokens';
  return drawn + '. Context: ' + context.toLocaleString('en') + ' tokens.';
}
function showAbout() {
  const chosen = models.find(({ id }) => id === byId('chat-model').value);
  if (chosen) byId('chat-about').textContent = aboutChat(chosen);
}

/** Lists the models that can chat. Throws Refused when none can. */
function showChat() {
  const able = models.filter(({ chat }) => chat);
  if (able.length === 0) throw new Refused(404, NO_CHAT);
  const select = byId('chat-model');
  const ids = able.map(({ id }) => id);
  if ([...select.options].map(({ value }) => value).join() === ids.join()) return;
  const kept = ids.includes(select.value) ? select.value : ids.includes(model.id) ? model.id : ids[0];
  select.replaceChildren(...ids.map((id) => new Option(id, id, false, id === kept)));
  byId('chat-models').hidden = models.length < 2;
  showAbout();
}
/** Chats with the model that the page shows, if it can. */
function chatFollows() {
  if (model && model.chat) byId('chat-model').value = model.id;
  showAbout();
}
/** Shows the experts of the model that chats. */
function showChatting() {
  const chosen = models.find(({ id }) => id === byId('chat-model').value);
  showAbout();
  if (chosen && chosen !== model) choose(chosen);
}

/** Adds a message to the log. The text of models and of errors is text, never HTML. */
function addMessage(who, className) {
  const entry = make('div', 'message ' + className);
  const body = make('div', 'text');
  entry.append(make('div', 'who', who), body);
  inView(() => byId('chat-log').append(entry));
  return { entry, body };
}
/** Changes the log, and goes on showing its end where that was in view. */
function inView(change) {
  const log = byId('chat-log');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}
/** Appends text to an element that holds only text. */
function addText(element, text) {
  inView(() => element.firstChild ? element.firstChild.appendData(text) : element.append(text));
}

/** The data of server-sent events, each as soon as it has come. */
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split('\\n\\n');
    rest = events.pop();
    for (const event of events) if (event.startsWith('data: ')) yield event.slice('data: '.length);
  }
}

/** Streams an answer to \`messages\` into the log. Returns what was said, and how it ended. */
async function streamAnswer(signal, told) {
  const begin = performance.now();
  const request = {
    model: byId('chat-model').value,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  };
  const answer = await send('/v1/chat/completions', { ...posted(request), signal });
  if (!answer.ok) await bodyOf(answer);
  let first;
  for await (const data of eventsOf(answer)) {
    if (data === '[DONE]') {
      told.ended = true;
      break;
    }
    const { error, choices, usage } = JSON.parse(data);
    if (error) throw new Refused(500, error.message);
    if (usage) told.usage = usage;
    for (const { delta, finish_reason: reason } of choices) {
      if (delta.reasoning_content) addText(reasoningOf(told), delta.reasoning_content);
      if (delta.content) {
        told.text += delta.content;
        addText(told.body, delta.content);
      }
      if (delta.content || delta.reasoning_content) first ??= performance.now();
      if (reason) told.reason = reason;
    }
  }
  if (!told.ended) throw new Refused(500, 'The connection ended before the answer did.');
  told.seconds = { first: ((first || performance.now()) - begin) / 1000, all: (performance.now() - begin) / 1000 };
}
/** The element for what the model writes before its answer, which stands folded above it. */
function reasoningOf(told) {
  if (!told.reasoning) {
    const details = make('details', 'quiet');
    told.reasoning = make('div', 'text');
    details.append(make('summary', '', 'Reasoning'), told.reasoning);
    inView(() => told.entry.insertBefore(details, told.body));
  }
  return told.reasoning;
}
function summaryOf({ usage, seconds, reason, text }) {
  const cut = reason === 'length' ? 'The answer reached its limit of tokens. ' : '';
  if (!usage) return cut;
  const { prompt_tokens: prompt, completion_tokens: tokens, prompt_tokens_details: details } = usage;
  const cached = details && details.cached_tokens ? ', ' + details.cached_tokens + ' of them cached' : '';
  const rate = seconds.all > 0 ? ', ' + (tokens / seconds.all).toFixed(0) + ' a second' : '';
  return (text === '' ? 'The model said nothing. ' : '') + cut + tokens + (tokens === 1 ? ' token' : ' tokens') + rate + ', the first after '
    + seconds.first.toFixed(2) + ' s; ' + prompt + ' tokens of the conversation' + cached + '.';
}

function setAnswering(abort) {
  answering = abort;
  byId('chat-send').hidden = abort !== undefined;
  byId('chat-stop').hidden = abort === undefined;
  // Screen readers wait until the answer is complete.
  byId('chat-log').setAttribute('aria-busy', String(abort !== undefined));
}
/** Asks for the experts more often than usual while an answer is streamed, so that they are seen to move. */
async function followExperts(abort) {
  while (answering === abort) {
    await expertsSection().catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

async function converse(text) {
  const abort = new AbortController();
  showChatting();
  setAnswering(abort);
  byId('chat-state').textContent = 'The model is answering.';
  const asked = addMessage('You', 'user');
  asked.body.textContent = text;
  messages.push({ role: 'user', content: text });
  const told = { ...addMessage(byId('chat-model').value, 'assistant'), text: '' };
  byId('chat-log').scrollTop = byId('chat-log').scrollHeight;
  void followExperts(abort);
  let state;
  try {
    await streamAnswer(abort.signal, told);
    state = summaryOf(told);
  } catch (error) {
    state = abort.signal.aborted ? 'Stopped.' : told.text === '' ? 'No answer.' : 'The answer broke off.';
    if (!abort.signal.aborted) addMessage('Error', 'error').body.textContent = reasonOf(error);
  }
  // A new conversation may have begun.
  if (answering !== abort) return;
  if (told.text !== '') messages.push({ role: 'assistant', content: told.text });
  else {
    messages.pop();
    if (!told.reasoning) told.entry.remove();
    if (!told.ended && byId('chat-input').value === '') byId('chat-input').value = text;
  }
  setAnswering(undefined);
  byId('chat-state').textContent = state;
}
function newConversation() {
  if (answering) answering.abort();
  setAnswering(undefined);
  messages = [];
  byId('chat-log').replaceChildren();
  byId('chat-state').textContent = '';
}

byId('chat-model').addEventListener('change', showChatting);
byId('chat-new').addEventListener('click', () => {
  newConversation();
  byId('chat-input').focus();
});
byId('chat-stop').addEventListener('click', () => {
  if (answering) answering.abort();
  byId('chat-input').focus();
});
byId('chat-input').addEventListener('keydown', (event) => {
  // An input method uses Enter to choose a word.
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId('chat-form').requestSubmit();
});
byId('chat-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const input = byId('chat-input');
  const text = input.value.trim();
  if (answering || text === '') return;
  input.value = '';
  input.focus();
  void converse(text);
});
`;
