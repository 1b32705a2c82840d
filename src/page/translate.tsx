/** Translates a text with a model that has languages. */
import { useSignal } from '@preact/signals';
import { ask, reasonOf } from './api.js';
import type { ExpertCost } from './conversations.js';
import { CostText } from './cost.js';
import { adminRefused, type Model } from './server.js';

interface Answer {
  data: { text: string; finish_reason: string }[];
  experts?: ExpertCost;
}

export function Translate({ model }: { model: Model }) {
  const answer = useSignal<Answer | undefined>(undefined);
  const failed = useSignal('');
  const busy = useSignal(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement));
    busy.value = true;
    failed.value = '';
    try {
      const include = adminRefused.value === undefined ? { include: ['experts'] } : {};
      const body = { model: model.id, ...fields, ...include };
      answer.value = await ask<Answer>('/v1/translate', { method: 'POST', body });
    } catch (error) {
      answer.value = undefined;
      failed.value = reasonOf(error);
    }
    busy.value = false;
  };
  const { value } = answer;
  return (
    <div class="scroll">
      <h2>Translate</h2>
      <form id="translate" onSubmit={(event) => void submit(event as unknown as SubmitEvent)}>
        <Languages label="From" name="source" of={model.languages} first="eng_Latn" />
        <Languages label="To" name="target" of={model.languages} first="deu_Latn" />
        <label>
          Text <textarea name="input" required rows={4} />
        </label>
        <button type="submit" disabled={busy.value}>
          Translate
        </button>
      </form>
      <div id="translation" aria-live="polite">
        {failed.value !== '' && <p class="error">{failed.value}</p>}
        {value !== undefined && (
          <>
            <p class="text">{value.data[0]!.text}</p>
            {value.data[0]!.finish_reason === 'length' && (
              <p class="quiet">It reached its limit of tokens.</p>
            )}
            {value.experts !== undefined && (
              <p class="quiet">
                <CostText experts={value.experts} />
              </p>
            )}
          </>
        )}
      </div>
    </div>
  );
}

interface LanguagesProps {
  label: string;
  name: string;
  of: readonly string[];
  first: string;
}

function Languages({ label, name, of, first }: LanguagesProps) {
  return (
    <label>
      {label}{' '}
      <select name={name}>
        {of.map((language) => (
          <option key={language} selected={language === first}>
            {language}
          </option>
        ))}
      </select>
    </label>
  );
}
