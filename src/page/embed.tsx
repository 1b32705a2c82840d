/** Compares texts by their embeddings. */
import { useSignal } from '@preact/signals';
import { ask, reasonOf } from './api.js';
import { dot } from './numbers.js';
import type { Model } from './server.js';

interface Answer {
  data: { embedding: number[] }[];
}

const FIRST = 'a violin\na guitar\na river\na lake';

export function Embed({ model }: { model: Model }) {
  const texts = useSignal(FIRST);
  const compared = useSignal<{ first: string; width: number; others: [string, number][] } | undefined>(
    undefined,
  );
  const failed = useSignal('');
  const busy = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    const input = texts.value
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    compared.value = undefined;
    failed.value = input.length < 2 ? 'Write at least two lines.' : '';
    if (input.length < 2) return;
    busy.value = true;
    try {
      const { data } = await ask<Answer>('/v1/embeddings', {
        method: 'POST',
        body: { model: model.id, input },
      });
      const [own, ...rest] = data.map(({ embedding }) => embedding);
      compared.value = {
        first: input[0]!,
        width: own!.length,
        others: rest.map((other, at) => [input[at + 1]!, dot(own!, other)]),
      };
    } catch (error) {
      failed.value = reasonOf(error);
    }
    busy.value = false;
  };
  return (
    <div class="scroll">
      <h2>Embed</h2>
      <form id="embed" onSubmit={(event) => void submit(event)}>
        <label>
          One text a line; the first is compared with the others
          <textarea
            rows={5}
            value={texts.value}
            onInput={({ currentTarget }) => (texts.value = currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={busy.value}>
          Compare
        </button>
      </form>
      <div id="likeness" aria-live="polite">
        {failed.value !== '' && <p class="error">{failed.value}</p>}
        {compared.value !== undefined && (
          <>
            {compared.value.others.map(([text, cosine], at) => (
              <div class="score" key={at}>
                <span>
                  {text} {cosine.toFixed(3)}
                </span>
                <meter value={Math.max(0, cosine)} aria-label={text} />
              </div>
            ))}
            <p class="quiet">
              Cosines with “{compared.value.first}”, of vectors of {compared.value.width} numbers. Models that
              were not trained for embeddings tell texts apart badly.
            </p>
          </>
        )}
      </div>
    </div>
  );
}
