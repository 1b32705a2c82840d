/** Markdown of models. micromark drops raw HTML and addresses that run scripts. */
import { micromark } from 'micromark';
import { gfm, gfmHtml } from 'micromark-extension-gfm';
import { useEffect, useMemo, useRef } from 'preact/hooks';

export function htmlOf(text: string): string {
  // All other "<" of the text are escaped, so that these are tags that micromark wrote.
  return micromark(text, { extensions: [gfm(), withoutFootnotes], htmlExtensions: [gfmHtml()] })
    .replaceAll('<a href=""', '<a')
    .replaceAll('<a href="', '<a target="_blank" rel="noopener" href="')
    .replaceAll('<input type="checkbox"', '<input aria-label="Done" type="checkbox"');
}

/** The ids of footnotes would repeat from answer to answer. */
const withoutFootnotes = {
  disable: { null: ['gfmFootnoteCall', 'gfmFootnoteDefinition', 'gfmPotentialFootnoteCall'] },
};

/** How long the last text took, so that an answer that grows is not drawn all the time. */
export const drawn = { ms: 0 };
/** Characters of an answer that grows, above which it is plain text until it ends. */
const MOST_GROWING = 64 * 1024;

export function Markdown({ text, grows }: { text: string; grows: boolean }) {
  if (grows && text.length > MOST_GROWING) return <div class="markdown text">{text}</div>;
  return <Drawn text={text} />;
}

function Drawn({ text }: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  const html = useMemo(() => {
    const begin = performance.now();
    const made = htmlOf(text);
    drawn.ms = performance.now() - begin;
    return made;
  }, [text]);
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
