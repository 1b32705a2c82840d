/** The messages of a conversation, and the same question within two budgets. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Message } from './conversations.js';
import { AboutText, speedOf, speedText } from './cost.js';
import { Markdown } from './markdown.js';
import { size } from './numbers.js';

/** The same question asked within two budgets. */
export interface Comparison {
  before: Message;
  now: Message;
}

/** An answer that is neither stopped nor broken off. */
export const isComplete = (message: Message | undefined) =>
  message?.error === undefined && message?.about?.stopped === false;

interface LogProps {
  messages: Message[];
  running: boolean;
  onEdit: (at: number) => void;
  children: ComponentChildren;
}

export function Log({ messages, running, onEdit, children }: LogProps) {
  const log = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (atEnd.current) log.current!.scrollTop = log.current!.scrollHeight;
  });
  const onScroll = () => {
    const { scrollHeight, scrollTop, clientHeight } = log.current!;
    atEnd.current = scrollHeight - scrollTop - clientHeight < 60;
  };
  return (
    <div
      id="chat-log"
      class="scroll"
      role="log"
      aria-label="Conversation"
      aria-busy={running}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
      tabIndex={0}
      ref={log}
      onScroll={onScroll}
    >
      {messages.map((message, at) => (
        <Entry
          key={at}
          message={message}
          grows={running && at === messages.length - 1}
          onEdit={running || message.role !== 'user' ? undefined : () => onEdit(at)}
        />
      ))}
      {children}
    </div>
  );
}

interface EntryProps {
  message: Message;
  grows: boolean;
  onEdit?: (() => void) | undefined;
}

function Entry({ message, grows, onEdit }: EntryProps) {
  const { role, content, reasoning, about, error } = message;
  return (
    <article class={`message ${role}`}>
      <h3>
        {role === 'user' ? 'You' : (about?.model ?? 'Answer')}
        {onEdit !== undefined && (
          <button type="button" class="plain" onClick={onEdit}>
            Edit
          </button>
        )}
      </h3>
      {reasoning !== undefined && (
        <details>
          <summary>Reasoning</summary>
          <div class="text">{reasoning}</div>
        </details>
      )}
      {role === 'user' ? <div class="text">{content}</div> : <Markdown text={content} grows={grows} />}
      {error !== undefined && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {about !== undefined && (
        <p class="quiet about">
          {content === '' && reasoning === undefined && error === undefined && 'The model said nothing. '}
          <AboutText about={about} />
        </p>
      )}
    </article>
  );
}

/** Both answers side by side, and whether they are the same. */
export function Compared({ before, now, running }: Comparison & { running: boolean }) {
  const same = before.content === now.content && (before.reasoning ?? '') === (now.reasoning ?? '');
  const [then, since] = [before, now].map(({ about }) => about && speedOf(about));
  return (
    <section id="comparison" aria-label="The same question within two budgets">
      {!running && isComplete(before) && isComplete(now) && (
        <p id="compared" class={same ? 'same' : 'error'}>
          {same ? 'The same answer, character by character.' : 'The answers differ.'}
          {then === undefined || since === undefined
            ? ' Too short to compare the speed.'
            : ` ${speedText(then)} and ${speedText(since)} tokens a second.`}
        </p>
      )}
      <div class="pair">
        {[before, now].map((message, at) => (
          <div key={at === 0 ? 'before' : 'now'}>
            <h3>
              {at === 0 ? 'Before' : 'Now'}
              {message.about?.budget !== undefined && `, within ${size(message.about.budget)}`}
            </h3>
            <Markdown text={message.content} grows={running && at === 1} />
            {message.error !== undefined && <p class="error">{message.error}</p>}
          </div>
        ))}
      </div>
    </section>
  );
}
