/** Compares texts by their embeddings. */
import { useSignal } from '@preact/signals';
import { ask } from './api.js';
import { useAsked } from './asked.js';
import { dot } from './numbers.js';
import type { Model } from './server.js';

interface Answer {
  data: { embedding: number[] }[];
}

interface Comparison {
  first: string;
  width: number;
  /** The other texts, and their cosines with the first. */
  others: [string, number][];
}

const FIRST = 'a violin\na guitar\na river\na lake';

export function Embed({ model }: { model: Model }) {
  const texts = useSignal(FIRST);
  const { answer: compared, failed, busy, send } = useAsked<Comparison>();
  const submit = (event: Event) => {
    event.preventDefault();
    const input = texts.value
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    compared.value = undefined;
    failed.value = input.length < 2 ? 'Write at least two lines.' : '';
    if (input.length < 2) return;
    const body = { model: model.id, input };
    void send(async () => {
      const { data } = await ask<Answer>('/v1/embeddings', { method: 'POST', body });
      const [own, ...rest] = data.map(({ embedding }) => embedding);
      const others = rest.map((other, at): [string, number] => [input[at + 1]!, dot(own!, other)]);
      return { first: input[0]!, width: own!.length, others };
    });
  };
  return (
    <div class="scroll">
      <h2>Embed</h2>
      <form id="embed" onSubmit={submit}>
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
