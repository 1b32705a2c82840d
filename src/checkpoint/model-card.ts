/** What a model's card says of it in two sentences. */
import { SidaError } from '../errors.js';
import { readModelFile } from '../files/model-file.js';

const CARD = 'README.md';
const MOST_BYTES = 4 * 1024 ** 2;
/** Further text says little of what a model is for. */
const MOST_READ = 16 * 1024;
const MOST_PARAGRAPH = 2048;
export const MOST_LETTERS = 300;
const MOST_SENTENCES = 2;

/** Of the card of a model's directory. Undefined where there is none, or none that can be read. */
export function cardDescription(directory: string): string | undefined {
  try {
    const bytes = readModelFile(directory, CARD, { mostBytes: MOST_BYTES });
    return bytes && describeMarkdown(bytes.toString());
  } catch (error) {
    if (error instanceof SidaError) return undefined;
    throw error;
  }
}

/** Whole sentences of the first paragraph that has any, without Markdown. */
export function describeMarkdown(markdown: string): string | undefined {
  return markdown
    .slice(0, MOST_READ)
    .replaceAll('\r\n', '\n')
    .replace(/^\ufeff?---\n.*?\n---\n/s, '')
    .replace(/<!--.*?-->/gs, '')
    .replace(/^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1/gms, '')
    .split(/\n\s*\n/)
    .filter((block) => !NO_PROSE.test(block))
    .map((block) => sentencesOf(plainText(block.slice(0, MOST_PARAGRAPH))))
    .find((text) => text !== '');
}

/** Whole sentences of a text, as a description has them. Undefined if the first is too long. */
export function describeText(text: string): string | undefined {
  return sentencesOf(text.slice(0, MOST_PARAGRAPH).replace(/\s+/g, ' ').trim()) || undefined;
}

/** Headings, lists, tables, quotes, code and HTML. */
const NO_PROSE = /^\s*([#|><]|[*+-](\s|$)|\d+[.)]\s|=+\s*$)|^\s*[-*_]{3,}\s*$|^ {4}|\n\s*([|]|=+\s*$|-+\s*$)/;

function plainText(block: string): string {
  return block
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])/g, '$1')
    .replace(/<[^>\n]+>/g, '')
    .replace(/(\*\*|__|~~|`+)(.+?)\1/gs, '$2')
    .replace(/(?<![\p{L}\d])([*_])(\S(?:.*?\S)?)\1(?![\p{L}\d])/gsu, '$2')
    .replace(/\\([!-/:-@[-`{-~])/g, '$1')
    .replace(/\s+/g, ' ')
    .trim();
}

const sentences = new Intl.Segmenter('en', { granularity: 'sentence' });

function sentencesOf(text: string): string {
  let kept = '';
  const whole = [...sentences.segment(text)].map(({ segment }) => segment).slice(0, MOST_SENTENCES);
  for (const sentence of whole) {
    if (!/[.!?][)"”’]?\s*$/.test(sentence) || (kept + sentence).trim().length > MOST_LETTERS) break;
    kept += sentence;
  }
  return kept.trim();
}
