/** The state of a form that asks the server one thing at a time. */
import { useSignal } from '@preact/signals';
import { reasonOf } from './api.js';

export function useAsked<Answer>() {
  const answer = useSignal<Answer | undefined>(undefined);
  const failed = useSignal('');
  const busy = useSignal(false);
  /** Replaces the answer by that of `ask`, or says why there is none. */
  const send = async (ask: () => Promise<Answer>) => {
    busy.value = true;
    failed.value = '';
    try {
      answer.value = await ask();
    } catch (error) {
      answer.value = undefined;
      failed.value = reasonOf(error);
    }
    busy.value = false;
  };
  return { answer, failed, busy, send };
}
