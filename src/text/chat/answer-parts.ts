/** What an answer consists of, and what splits one. */

export type AnswerPart =
  | { kind: 'reasoning' | 'content'; text: string }
  /** A tool call begins. Calls are numbered from 0. */
  | { kind: 'call'; call: number; name: string }
  /** More of a call's arguments, which together are JSON. */
  | { kind: 'arguments'; call: number; text: string };

export interface AnswerParser {
  /** Returns what became certain with this text. */
  push(text: string): AnswerPart[];
  /** Returns the rest. Call it when no text follows. */
  finish(): AnswerPart[];
}

/** Appends copies of the parts. Neighbouring texts of the same part become one. */
export function appendParts(to: AnswerPart[], more: readonly AnswerPart[]): void {
  for (const part of more) {
    const last = to.at(-1);
    if (
      last !== undefined &&
      part.kind !== 'call' &&
      last.kind === part.kind &&
      callOf(last) === callOf(part)
    )
      (last as typeof part).text += part.text;
    else to.push({ ...part });
  }
}

function callOf(part: AnswerPart): number | undefined {
  return 'call' in part ? part.call : undefined;
}

export interface WholeAnswer {
  reasoning: string;
  content: string;
  calls: { name: string; arguments: string }[];
}

export function wholeAnswer(parts: readonly AnswerPart[]): WholeAnswer {
  const answer: WholeAnswer = { reasoning: '', content: '', calls: [] };
  for (const part of parts) {
    if (part.kind === 'call') answer.calls[part.call] = { name: part.name, arguments: '' };
    else if (part.kind === 'arguments') answer.calls[part.call]!.arguments += part.text;
    else answer[part.kind] += part.text;
  }
  return answer;
}
