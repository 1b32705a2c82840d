/** Chooses, renames, exports and deletes conversations. */
import { type Conversation, newConversation } from './conversations.js';

interface ConversationsProps {
  all: Conversation[];
  current: Conversation;
  onOpen: (conversation: Conversation) => void;
  onRename: (title: string) => void;
  onDelete: () => void;
}

export function Conversations({ all, current, onOpen, onRename, onDelete }: ConversationsProps) {
  const known = all.some(({ id }) => id === current.id);
  const rename = () => {
    const title = prompt('Name of the conversation', current.title)?.trim();
    if (title) onRename(title);
  };
  const download = () => {
    const url = URL.createObjectURL(
      new Blob([JSON.stringify(current, null, 2)], { type: 'application/json' }),
    );
    const link = Object.assign(document.createElement('a'), { href: url, download: `${current.title}.json` });
    link.click();
    URL.revokeObjectURL(url);
  };
  return (
    <div class="tools" id="conversations">
      <select
        id="conversation"
        aria-label="Conversation"
        value={known ? current.id : ''}
        onChange={({ currentTarget }) => {
          const found = all.find(({ id }) => id === currentTarget.value);
          onOpen(found ?? newConversation());
        }}
      >
        <option value="">New conversation</option>
        {all.map(({ id, title }) => (
          <option key={id} value={id}>
            {title}
          </option>
        ))}
      </select>
      <button type="button" id="chat-new" onClick={() => onOpen(newConversation(current.settings))}>
        New
      </button>
      {known && (
        <>
          <button type="button" class="plain" onClick={rename}>
            Rename
          </button>
          <button type="button" class="plain" onClick={download}>
            Export
          </button>
          <button type="button" class="plain" id="delete" onClick={onDelete}>
            Delete
          </button>
        </>
      )}
    </div>
  );
}
