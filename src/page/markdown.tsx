/** Markdown of models. micromark drops raw HTML and addresses that run scripts. */
import { micromark } from 'micromark';
import { gfm, gfmHtml } from 'micromark-extension-gfm';
import { useEffect, useMemo, useRef } from 'preact/hooks';

export function htmlOf(text: string): string {
  return micromark(text, { extensions: [gfm()], htmlExtensions: [gfmHtml()] });
}

export function Markdown({ text }: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  const html = useMemo(() => htmlOf(text), [text]);
  useEffect(() => {
    for (const block of place.current!.querySelectorAll('pre')) addCopy(block);
  }, [html]);
  return <div class="markdown" ref={place} dangerouslySetInnerHTML={{ __html: html }} />;
}

/** A button that copies a block of code. Browsers copy on secure pages alone. */
function addCopy(block: HTMLPreElement): void {
  block.tabIndex = 0;
  const text = block.textContent;
  if (navigator.clipboard === undefined) return;
  const button = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Copy' });
  button.addEventListener('click', () => {
    void navigator.clipboard.writeText(text).then(() => {
      button.textContent = 'Copied';
    });
  });
  block.prepend(button);
}
