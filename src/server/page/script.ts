/** The script of the page. Its parts share one scope. */
import { BASE_SCRIPT } from './base-script.js';
import { CHAT_SCRIPT } from './chat-script.js';
import { CLASSIFY_SCRIPT } from './classify-script.js';
import { SERVER_SCRIPT } from './server-script.js';

const POLL = `async function poll() {
  if (document.visibilityState === 'visible') {
    try {
      const ready = await showReadiness();
      const withModels = (show) => async () => {
        await listModels(ready);
        show();
      };
      await section('chat', 'use the model', ['chat', 'chat-tools'], withModels(showChat));
      await section('try', 'use the model', ['try'], withModels(showTasks));
      if (ready) {
        await section('budget', 'see the budget', ['budget-bar', 'budget-split'], showBudget);
        await expertsSection();
      }
      showAccess();
    } catch (error) {
      byId('ready').textContent = error instanceof Refused ? error.message : 'unreachable';
      byId('ready').title = '';
      byId('ready').className = 'badge bad';
    }
  }
  setTimeout(poll, 1000);
}
poll();
`;

export const PAGE_SCRIPT = [BASE_SCRIPT, SERVER_SCRIPT, CLASSIFY_SCRIPT, CHAT_SCRIPT, POLL].join('\n');
