/** What an answer would take, told while typing pauses. */
import { type Signal, useSignal, useSignalEffect } from '@preact/signals';
import { ask } from './api.js';
import { seconds, size } from './numbers.js';

/** What of a quote is shown. */
export interface Quoted {
  seconds: { p50: number; p90: number };
  bytes_moved: { p50: number };
  measured_answers: number;
}

const PAUSE_MS = 500;

/** Undefined before answers were measured. */
export function priceText({ seconds: time, bytes_moved: bytes, measured_answers: measured }: Quoted) {
  if (measured === 0) return undefined;
  const load = bytes.p50 > 0 ? `, ${size(bytes.p50)} to load` : '';
  return `About ${seconds(time.p50)}${load}; ${seconds(time.p90)} at most in 9 of 10 answers.`;
}

export function Price({ draft, bodyOf }: { draft: Signal<string>; bodyOf: (text: string) => object }) {
  const price = useSignal<string | undefined>(undefined);
  useSignalEffect(() => {
    const text = draft.value.trim();
    price.value = undefined;
    if (text === '') return;
    const abort = new AbortController();
    const options = { method: 'POST' as const, signal: abort.signal };
    const timer = setTimeout(() => {
      const body = { path: '/v1/chat/completions', body: bodyOf(text) };
      // Without a quote the page is as before: sending tells what is wrong.
      ask<Quoted>('/v1/quote', { ...options, body }).then(
        (quote) => {
          if (!abort.signal.aborted) price.value = priceText(quote);
        },
        () => undefined,
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  });
  return price.value === undefined ? null : (
    <p class="quiet" id="price">
      {price.value}
    </p>
  );
}
