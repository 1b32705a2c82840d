/** Translates a text with a model that has languages. */
import { ask } from './api.js';
import { useAsked } from './asked.js';
import type { ExpertCost } from './conversations.js';
import { CostText } from './cost.js';
import { adminRefused, type Model } from './server.js';

interface Answer {
  data: { text: string; finish_reason: string }[];
  experts?: ExpertCost;
}

export function Translate({ model }: { model: Model }) {
  const { answer, failed, busy, send } = useAsked<Answer>();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement));
    const include = adminRefused.value === undefined ? { include: ['experts'] } : {};
    const body = { model: model.id, ...fields, ...include };
    void send(() => ask<Answer>('/v1/translate', { method: 'POST', body }));
  };
  const { value } = answer;
  return (
    <div class="scroll">
      <h2>Translate</h2>
      <form id="translate" onSubmit={(event) => submit(event as unknown as SubmitEvent)}>
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
