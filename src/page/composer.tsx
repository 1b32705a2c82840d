/** Where a message is written. Text files are added to it. */
import type { Signal } from '@preact/signals';
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { size } from './numbers.js';

interface ComposerProps {
  draft: Signal<string>;
  running: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

const MOST_FILE = 256 * 1024;

export function Composer({ draft, running, onSend, onStop }: ComposerProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const says = useSignal('');
  const send = () => {
    const text = draft.value.trim();
    if (running || text === '') return;
    draft.value = '';
    says.value = '';
    onSend(text);
    field.current!.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // An input method uses Enter to choose a word.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const add = async (files: FileList | null) => {
    for (const file of files ?? []) {
      const text = await textOf(file);
      if (text === undefined) {
        says.value = `${file.name} is not a text of at most ${size(MOST_FILE)}. These models read text alone, no images.`;
        continue;
      }
      draft.value = `${draft.value}${draft.value === '' ? '' : '\n\n'}${file.name}:\n\`\`\`\n${text}\n\`\`\`\n`;
    }
    field.current!.focus();
  };
  return (
    <form
      id="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void add(event.dataTransfer?.files ?? null);
      }}
    >
      {says.value !== '' && (
        <p class="error" role="alert">
          {says.value}
        </p>
      )}
      <textarea
        id="chat-input"
        ref={field}
        rows={2}
        aria-label="Message. Enter sends, Shift and Enter begin a new line"
        placeholder="Message (Enter sends, Shift+Enter begins a new line)"
        value={draft.value}
        onInput={({ currentTarget }) => (draft.value = currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <label class="button" for="files">
        Add text
        <input
          id="files"
          type="file"
          multiple
          onChange={({ currentTarget }) => {
            void add(currentTarget.files).then(() => {
              currentTarget.value = '';
            });
          }}
        />
      </label>
      {running ? (
        <button
          type="button"
          id="chat-stop"
          // Not the element of the other button, which would send what the field holds.
          key="stop"
          onClick={() => {
            onStop();
            field.current!.focus();
          }}
        >
          Stop
        </button>
      ) : (
        <button type="submit" id="chat-send" key="send">
          Send
        </button>
      )}
    </form>
  );
}

/** The text of a file. Undefined for a large one, and for one that is no text. */
async function textOf(file: File): Promise<string | undefined> {
  if (file.size > MOST_FILE) return undefined;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}
